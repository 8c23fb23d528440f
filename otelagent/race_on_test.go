//go:build race

package otelagent_test

const raceEnabled = true
