CREATE TABLE IF NOT EXISTS `db`.`otelagent_schema` (
  `version` UInt32,
  `profile` String,
  `at` UInt64)
ENGINE = ReplacingMergeTree(at)
ORDER BY (version)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`rows` (
  `tenant` String,
  `session` String,
  `start_ns` Int64,
  `span` FixedString(8),
  `trace` FixedString(16),
  `content` UInt64,
  `parent` FixedString(8),
  `kind` UInt8,
  `known` UInt8,
  `end_ns` Int64,
  `failed` UInt8,
  `status` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Int64,
  `model` String,
  `tool` String,
  `input` Int64,
  `output` Int64,
  `reasoning` Int64,
  `cache_read` Int64,
  `cache_write` Int64,
  `bytes` UInt32,
  `canonical` String,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplacingMergeTree()
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, span, trace, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`live_rows` (
  `tenant` String,
  `session` String,
  `start_ns` Int64,
  `span` FixedString(8),
  `trace` FixedString(16),
  `content` UInt64,
  `parent` FixedString(8),
  `kind` UInt8,
  `known` UInt8,
  `end_ns` Int64,
  `failed` UInt8,
  `status` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Int64,
  `model` String,
  `tool` String,
  `input` Int64,
  `output` Int64,
  `reasoning` Int64,
  `cache_read` Int64,
  `cache_write` Int64,
  `bytes` UInt32,
  `canonical` String,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplacingMergeTree()
PARTITION BY intDiv(at, 86400000000000)
ORDER BY (tenant, session, start_ns, span, trace, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`blocks` (
  `tenant` String,
  `session` String,
  `id` FixedString(32),
  `size` Int64,
  `recipe` UInt8,
  `bytes` UInt32,
  `body` String,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplacingMergeTree()
ORDER BY (tenant, session, id, size)
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS `db`.`refs` (
  `tenant` String,
  `session` String,
  `id` FixedString(32),
  `bytes` UInt32,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplacingMergeTree()
ORDER BY (tenant, session, id)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`shared` (
  `tenant` String,
  `id` FixedString(32),
  `at` UInt64,
  `body` String)
ENGINE = ReplacingMergeTree(at)
ORDER BY (tenant, id)
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS `db`.`touches` (
  `tenant` String,
  `session` String,
  `key` FixedString(16),
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplacingMergeTree(n)
ORDER BY (tenant, session, writer)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`summaries` (
  `tenant` String,
  `session` String,
  `key` FixedString(16),
  `mark` UInt64,
  `at` UInt64,
  `parent` String,
  `status` String,
  `agent` String,
  `agent_id` String,
  `model` String,
  `dialect` String,
  `start_ns` Int64,
  `last_ns` Int64,
  `runs` Int64,
  `turns` Int64,
  `tool_calls` Int64,
  `errors` Int64,
  `denied` Int64,
  `defects` Int64,
  `input` Int64,
  `output` Int64,
  `reasoning` Int64,
  `cache_read` Int64,
  `cache_write` Int64)
ENGINE = ReplacingMergeTree(mark)
ORDER BY (tenant, session)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`deletions` (
  `tenant` String,
  `key` FixedString(16),
  `version` UInt64,
  `mark` UInt64,
  `session` String,
  `writers` Array(UInt64),
  `ns` Array(UInt64),
  `done` UInt8,
  `at` UInt64)
ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant, key)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`rejects` (
  `seq` UInt64,
  `time_ns` Int64,
  `reason` String,
  `signal` String,
  `name` String,
  `service` String,
  `tenant` String,
  `session` String,
  `trace` FixedString(16),
  `span` FixedString(8))
ENGINE = MergeTree()
ORDER BY (seq)
SETTINGS index_granularity = 8192;

