// Package compose holds tests of docker-compose.yaml and of what lies in compose/. No container engine runs where they do: the
// Compose project's own loader reads the files, every mounted file is read by the program that it is for, and what compose would
// start runs as processes with the same files, arguments and health checks (compose/README.md).
package compose
