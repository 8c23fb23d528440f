// Package compose holds tests of docker-compose.yaml and of the files in compose/. No container engine runs where they
// run: the loader of the Compose project reads the files, the program of each mounted file reads it, and the services
// run as processes with the same files, arguments and health checks (compose/README.md).
package compose
