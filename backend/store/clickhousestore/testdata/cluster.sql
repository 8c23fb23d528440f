CREATE TABLE IF NOT EXISTS `db`.`otelagent_schema_local` ON CLUSTER `c` (
  `version` UInt32,
  `profile` String,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/otelagent_schema/{shard}', '{replica}', at)
ORDER BY (version)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`otelagent_schema` ON CLUSTER `c` AS `db`.`otelagent_schema_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `otelagent_schema_local`, cityHash64(version));

CREATE TABLE IF NOT EXISTS `db`.`rows_local` ON CLUSTER `c` (
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/rows/{shard}', '{replica}')
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, span, trace, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`rows` ON CLUSTER `c` AS `db`.`rows_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `rows_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`live_rows_local` ON CLUSTER `c` (
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/live_rows/{shard}', '{replica}')
PARTITION BY intDiv(at, 86400000000000)
ORDER BY (tenant, session, start_ns, span, trace, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`live_rows` ON CLUSTER `c` AS `db`.`live_rows_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `live_rows_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`blocks_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `id` FixedString(32),
  `size` Int64,
  `bytes` UInt32,
  `body` String,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/blocks/{shard}', '{replica}')
ORDER BY (tenant, session, id, size)
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS `db`.`blocks` ON CLUSTER `c` AS `db`.`blocks_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `blocks_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`refs_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `id` FixedString(32),
  `bytes` UInt32,
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/refs/{shard}', '{replica}')
ORDER BY (tenant, session, id)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`refs` ON CLUSTER `c` AS `db`.`refs_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `refs_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`shared_local` ON CLUSTER `c` (
  `tenant` String,
  `id` FixedString(32),
  `at` UInt64,
  `body` String)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/shared/{shard}', '{replica}', at)
ORDER BY (tenant, id)
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS `db`.`shared` ON CLUSTER `c` AS `db`.`shared_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `shared_local`, cityHash64(tenant, id));

CREATE TABLE IF NOT EXISTS `db`.`touches_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `key` FixedString(16),
  `writer` UInt64,
  `n` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/touches/{shard}', '{replica}', n)
ORDER BY (tenant, session, writer)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`touches` ON CLUSTER `c` AS `db`.`touches_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `touches_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`summaries_local` ON CLUSTER `c` (
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
  `cache_write` Int64,
  `forked_from` String,
  `title` String,
  `archived` UInt8,
  `cost` Float64,
  `currency` String,
  `heartbeat_ns` Int64,
  `settled` String)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/summaries/{shard}', '{replica}', mark)
ORDER BY (tenant, session)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`summaries` ON CLUSTER `c` AS `db`.`summaries_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `summaries_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`deletions_local` ON CLUSTER `c` (
  `tenant` String,
  `key` FixedString(16),
  `version` UInt64,
  `mark` UInt64,
  `session` String,
  `writers` Array(UInt64),
  `ns` Array(UInt64),
  `done` UInt8,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/deletions/{shard}', '{replica}', version)
ORDER BY (tenant, key)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`deletions` ON CLUSTER `c` AS `db`.`deletions_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `deletions_local`, cityHash64(tenant, key));

CREATE TABLE IF NOT EXISTS `db`.`turns_raw_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Int64,
  `start_ns` Int64,
  `end_ns` Nullable(Int64),
  `model_call_ns` Nullable(Int64),
  `first_chunk_ns` Nullable(Int64),
  `agent` Nullable(String),
  `provider` Nullable(String),
  `model` Nullable(String),
  `response_model` Nullable(String),
  `stop_reason` Nullable(String),
  `failed` UInt8,
  `error_type` Nullable(String),
  `attempts` Nullable(Int64),
  `input` Nullable(Int64),
  `output` Nullable(Int64),
  `reasoning` Nullable(Int64),
  `cache_read` Nullable(Int64),
  `cache_write` Nullable(Int64),
  `cost` Nullable(Float64),
  `currency` Nullable(String),
  `request_messages` Nullable(Int64),
  `request_bytes` Nullable(Int64),
  `tool_calls` Int64,
  `content` UInt64,
  `removed` UInt8,
  `mark` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/turns_raw/{shard}', '{replica}', mark)
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`turns_raw` ON CLUSTER `c` AS `db`.`turns_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `turns_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`tool_calls_raw_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Nullable(Int64),
  `call` String,
  `start_ns` Int64,
  `end_ns` Nullable(Int64),
  `agent` Nullable(String),
  `model` Nullable(String),
  `tool` Nullable(String),
  `outcome` Nullable(String),
  `failed` UInt8,
  `content` UInt64,
  `removed` UInt8,
  `mark` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/tool_calls_raw/{shard}', '{replica}', mark)
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`tool_calls_raw` ON CLUSTER `c` AS `db`.`tool_calls_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `tool_calls_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`compactions_raw_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Nullable(Int64),
  `start_ns` Int64,
  `end_ns` Nullable(Int64),
  `kind` Nullable(String),
  `trigger` Nullable(String),
  `input_tokens` Nullable(Int64),
  `output_tokens` Nullable(Int64),
  `messages_before` Nullable(Int64),
  `messages_after` Nullable(Int64),
  `content` UInt64,
  `removed` UInt8,
  `mark` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/compactions_raw/{shard}', '{replica}', mark)
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`compactions_raw` ON CLUSTER `c` AS `db`.`compactions_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `compactions_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`permission_evaluations_raw_local` ON CLUSTER `c` (
  `tenant` String,
  `session` String,
  `run` String,
  `run_start_ns` Int64,
  `turn` Nullable(Int64),
  `at_ns` Int64,
  `wait_ns` Nullable(Int64),
  `tool` Nullable(String),
  `action` Nullable(String),
  `source` Nullable(String),
  `content` UInt64,
  `removed` UInt8,
  `mark` UInt64,
  `at` UInt64)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/permission_evaluations_raw/{shard}', '{replica}', mark)
PARTITION BY if(at_ns < 1577836800000000000 OR at_ns >= 2840140800000000000, 0, 1 + intDiv(at_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, at_ns, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`permission_evaluations_raw` ON CLUSTER `c` AS `db`.`permission_evaluations_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `permission_evaluations_raw_local`, cityHash64(tenant, session));

CREATE VIEW IF NOT EXISTS `db`.`turns` ON CLUSTER `c`
AS SELECT tenant, session, `run`, `run_start_ns`, `turn`, `start_ns`, `end_ns`, `model_call_ns`, `first_chunk_ns`, `agent`, `provider`, `model`, `response_model`, `stop_reason`, `failed`, `error_type`, `attempts`, `input`, `output`, `reasoning`, `cache_read`, `cache_write`, `cost`, `currency`, `request_messages`, `request_bytes`, `tool_calls`
FROM `db`.`turns_raw` FINAL
WHERE removed = 0
  AND (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM (SELECT tenant, key, version, mark, session, writers, ns, done, at
FROM `db`.`deletions` ORDER BY version DESC LIMIT 1 BY tenant, key)
WHERE done = 0);

CREATE VIEW IF NOT EXISTS `db`.`tool_calls` ON CLUSTER `c`
AS SELECT tenant, session, `run`, `run_start_ns`, `turn`, `call`, `start_ns`, `end_ns`, `agent`, `model`, `tool`, `outcome`, `failed`
FROM `db`.`tool_calls_raw` FINAL
WHERE removed = 0
  AND (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM (SELECT tenant, key, version, mark, session, writers, ns, done, at
FROM `db`.`deletions` ORDER BY version DESC LIMIT 1 BY tenant, key)
WHERE done = 0);

CREATE VIEW IF NOT EXISTS `db`.`compactions` ON CLUSTER `c`
AS SELECT tenant, session, `run`, `run_start_ns`, `turn`, `start_ns`, `end_ns`, `kind`, `trigger`, `input_tokens`, `output_tokens`, `messages_before`, `messages_after`
FROM `db`.`compactions_raw` FINAL
WHERE removed = 0
  AND (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM (SELECT tenant, key, version, mark, session, writers, ns, done, at
FROM `db`.`deletions` ORDER BY version DESC LIMIT 1 BY tenant, key)
WHERE done = 0);

CREATE VIEW IF NOT EXISTS `db`.`permission_evaluations` ON CLUSTER `c`
AS SELECT tenant, session, `run`, `run_start_ns`, `turn`, `at_ns`, `wait_ns`, `tool`, `action`, `source`
FROM `db`.`permission_evaluations_raw` FINAL
WHERE removed = 0
  AND (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM (SELECT tenant, key, version, mark, session, writers, ns, done, at
FROM `db`.`deletions` ORDER BY version DESC LIMIT 1 BY tenant, key)
WHERE done = 0);

