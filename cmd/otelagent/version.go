package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by -ldflags "-X main.version=v1.2.3" in releases.
var version = ""

// versionText is the version, or what the build knows of the source.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprintf(a.stdout, "otelagent %s (collector %s, %s, %s/%s)\n",
				versionText(), collectorVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
