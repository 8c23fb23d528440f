package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// envDB names the variable that stands in for --db.
const envDB = "OTELAGENT_DB"

// defaultPath is where sessions are kept unless told otherwise: one file a user.
func defaultPath() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "otelagent", "sessions.db"), nil
	}
	var dir string
	var err error
	switch runtime.GOOS {
	case "windows", "darwin", "ios":
		dir, err = os.UserConfigDir()
	default:
		dir, err = os.UserHomeDir()
		dir = filepath.Join(dir, ".local", "share")
	}
	if err != nil {
		return "", fmt.Errorf("where to keep sessions is not known (%w): give --db PATH", err)
	}
	return filepath.Join(dir, "otelagent", "sessions.db"), nil
}

// chooseDSN returns the database to use: the flag, else the environment, else the default.
func chooseDSN(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if env := os.Getenv(envDB); env != "" {
		return env, nil
	}
	return defaultPath()
}
