module github.com/otelagent/otelagent/interop/agents

go 1.26.7
