CREATE TABLE IF NOT EXISTS `db`.`otelagent_schema_local` ON CLUSTER `c` (
  `version` UInt32,
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
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `start_ns` Int64 CODEC(Delta, ZSTD(1)),
  `span` FixedString(8),
  `trace` FixedString(16) CODEC(ZSTD(1)),
  `content` UInt64,
  `known` UInt8 CODEC(ZSTD(1)),
  `end_ns` Int64 CODEC(Delta, ZSTD(1)),
  `bytes` UInt32 CODEC(ZSTD(1)),
  `canonical` String CODEC(ZSTD(1)),
  `writer` UInt64 CODEC(ZSTD(1)),
  `n` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)),
  INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4,
  INDEX by_span span TYPE bloom_filter(0.01) GRANULARITY 4)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/rows/{shard}', '{replica}', end_ns)
PARTITION BY if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)
ORDER BY (tenant, session, start_ns, span, trace, content)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`rows` ON CLUSTER `c` AS `db`.`rows_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `rows_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`blocks_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `id` FixedString(32),
  `size` Int64 CODEC(ZSTD(1)),
  `bytes` UInt32 CODEC(ZSTD(1)),
  `body` String CODEC(ZSTD(3)),
  `writer` UInt64 CODEC(ZSTD(1)),
  `n` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)))
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/blocks/{shard}', '{replica}')
ORDER BY (tenant, session, id, size)
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS `db`.`blocks` ON CLUSTER `c` AS `db`.`blocks_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `blocks_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`touches_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `key` FixedString(16),
  `writer` UInt64 CODEC(ZSTD(1)),
  `n` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)))
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/touches/{shard}', '{replica}', n)
ORDER BY (tenant, session, writer)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`touches` ON CLUSTER `c` AS `db`.`touches_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `touches_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`deletions_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
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
TTL toDateTime(intDiv(at, 1000000000)) + INTERVAL 604800 SECOND DELETE WHERE done = 1
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`deletions` ON CLUSTER `c` AS `db`.`deletions_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `deletions_local`, cityHash64(tenant, key));

CREATE TABLE IF NOT EXISTS `db`.`summaries_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `key` FixedString(16),
  `mark` UInt64,
  `at` UInt64,
  `parent` LowCardinality(String) CODEC(ZSTD(1)),
  `status` LowCardinality(String) CODEC(ZSTD(1)),
  `agent` LowCardinality(String) CODEC(ZSTD(1)),
  `agent_id` LowCardinality(String) CODEC(ZSTD(1)),
  `model` LowCardinality(String) CODEC(ZSTD(1)),
  `dialect` LowCardinality(String) CODEC(ZSTD(1)),
  `start_ns` Int64 CODEC(ZSTD(1)),
  `last_ns` Int64 CODEC(ZSTD(1)),
  `runs` Int64 CODEC(ZSTD(1)),
  `turns` Int64 CODEC(ZSTD(1)),
  `tool_calls` Int64 CODEC(ZSTD(1)),
  `errors` Int64 CODEC(ZSTD(1)),
  `denied` Int64 CODEC(ZSTD(1)),
  `defects` Int64 CODEC(ZSTD(1)),
  `input` Int64 CODEC(ZSTD(1)),
  `output` Int64 CODEC(ZSTD(1)),
  `reasoning` Int64 CODEC(ZSTD(1)),
  `cache_read` Int64 CODEC(ZSTD(1)),
  `cache_write` Int64 CODEC(ZSTD(1)),
  `lower_bound` UInt8 CODEC(ZSTD(1)),
  `forked_from` LowCardinality(String) CODEC(ZSTD(1)),
  `title` LowCardinality(String) CODEC(ZSTD(1)),
  `archived` UInt8 CODEC(ZSTD(1)),
  `cost` Float64 CODEC(ZSTD(1)),
  `currency` LowCardinality(String) CODEC(ZSTD(1)),
  `heartbeat_ns` Int64 CODEC(ZSTD(1)),
  `settled` LowCardinality(String) CODEC(ZSTD(1)),
  `mapped` LowCardinality(String) CODEC(ZSTD(1)),
  `part` UInt8 CODEC(ZSTD(1)))
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/summaries/{shard}', '{replica}', mark)
ORDER BY (tenant, session)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS `db`.`summaries` ON CLUSTER `c` AS `db`.`summaries_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `summaries_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`turns_raw_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `number` UInt32 CODEC(ZSTD(1)),
  `mark` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)),
  `run` String CODEC(ZSTD(1)),
  `run_start_ns` Int64 CODEC(ZSTD(1)),
  `turn` Int64 CODEC(ZSTD(1)),
  `start_ns` Int64 CODEC(ZSTD(1)),
  `end_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `model_call_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `first_chunk_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `agent` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `provider` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `model` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `response_model` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `stop_reason` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `failed` UInt8 CODEC(ZSTD(1)),
  `error_type` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `attempts` Nullable(Int64) CODEC(ZSTD(1)),
  `input` Nullable(Int64) CODEC(ZSTD(1)),
  `output` Nullable(Int64) CODEC(ZSTD(1)),
  `reasoning` Nullable(Int64) CODEC(ZSTD(1)),
  `cache_read` Nullable(Int64) CODEC(ZSTD(1)),
  `cache_write` Nullable(Int64) CODEC(ZSTD(1)),
  `lower_bound` UInt8 CODEC(ZSTD(1)),
  `purpose` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `cost` Nullable(Float64) CODEC(ZSTD(1)),
  `currency` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `request_messages` Nullable(Int64) CODEC(ZSTD(1)),
  `request_bytes` Nullable(Int64) CODEC(ZSTD(1)),
  `tool_calls` Int64 CODEC(ZSTD(1)),
  `trace` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  INDEX by_start start_ns TYPE minmax GRANULARITY 1)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/turns_raw/{shard}', '{replica}', mark)
ORDER BY (tenant, session, number)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`turns_raw` ON CLUSTER `c` AS `db`.`turns_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `turns_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`tool_calls_raw_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `number` UInt32 CODEC(ZSTD(1)),
  `mark` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)),
  `run` String CODEC(ZSTD(1)),
  `run_start_ns` Int64 CODEC(ZSTD(1)),
  `turn` Nullable(Int64) CODEC(ZSTD(1)),
  `call` String CODEC(ZSTD(1)),
  `start_ns` Int64 CODEC(ZSTD(1)),
  `end_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `agent` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `model` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `tool` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `outcome` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `failed` UInt8 CODEC(ZSTD(1)),
  INDEX by_start start_ns TYPE minmax GRANULARITY 1)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/tool_calls_raw/{shard}', '{replica}', mark)
ORDER BY (tenant, session, number)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`tool_calls_raw` ON CLUSTER `c` AS `db`.`tool_calls_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `tool_calls_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`compactions_raw_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `number` UInt32 CODEC(ZSTD(1)),
  `mark` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)),
  `run` String CODEC(ZSTD(1)),
  `run_start_ns` Int64 CODEC(ZSTD(1)),
  `turn` Nullable(Int64) CODEC(ZSTD(1)),
  `start_ns` Int64 CODEC(ZSTD(1)),
  `end_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `kind` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `trigger` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `input_tokens` Nullable(Int64) CODEC(ZSTD(1)),
  `output_tokens` Nullable(Int64) CODEC(ZSTD(1)),
  `messages_before` Nullable(Int64) CODEC(ZSTD(1)),
  `messages_after` Nullable(Int64) CODEC(ZSTD(1)),
  `used_input` Nullable(Int64) CODEC(ZSTD(1)),
  `used_output` Nullable(Int64) CODEC(ZSTD(1)),
  `lower_bound` UInt8 CODEC(ZSTD(1)),
  `cost` Nullable(Float64) CODEC(ZSTD(1)),
  `currency` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  INDEX by_start start_ns TYPE minmax GRANULARITY 1)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/compactions_raw/{shard}', '{replica}', mark)
ORDER BY (tenant, session, number)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`compactions_raw` ON CLUSTER `c` AS `db`.`compactions_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `compactions_raw_local`, cityHash64(tenant, session));

CREATE TABLE IF NOT EXISTS `db`.`permission_evaluations_raw_local` ON CLUSTER `c` (
  `tenant` LowCardinality(String) CODEC(ZSTD(1)),
  `session` String CODEC(ZSTD(1)),
  `number` UInt32 CODEC(ZSTD(1)),
  `mark` UInt64 CODEC(ZSTD(1)),
  `at` UInt64 CODEC(ZSTD(1)),
  `run` String CODEC(ZSTD(1)),
  `run_start_ns` Int64 CODEC(ZSTD(1)),
  `turn` Nullable(Int64) CODEC(ZSTD(1)),
  `at_ns` Int64 CODEC(ZSTD(1)),
  `wait_ns` Nullable(Int64) CODEC(ZSTD(1)),
  `tool` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `action` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  `source` LowCardinality(Nullable(String)) CODEC(ZSTD(1)),
  INDEX by_start at_ns TYPE minmax GRANULARITY 1)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/otelagent/db/permission_evaluations_raw/{shard}', '{replica}', mark)
ORDER BY (tenant, session, number)
SETTINGS index_granularity = 8192;

CREATE TABLE IF NOT EXISTS `db`.`permission_evaluations_raw` ON CLUSTER `c` AS `db`.`permission_evaluations_raw_local`
ENGINE = Distributed(
  `c`,
  `db`,
  `permission_evaluations_raw_local`, cityHash64(tenant, session));

CREATE VIEW IF NOT EXISTS `db`.`turns` ON CLUSTER `c`
AS SELECT tenant, session, f.`run` AS `run`, f.`run_start_ns` AS `run_start_ns`, f.`turn` AS `turn`, f.`start_ns` AS `start_ns`, f.`end_ns` AS `end_ns`, f.`model_call_ns` AS `model_call_ns`, f.`first_chunk_ns` AS `first_chunk_ns`, f.`agent` AS `agent`, f.`provider` AS `provider`, f.`model` AS `model`, f.`response_model` AS `response_model`, f.`stop_reason` AS `stop_reason`, f.`failed` AS `failed`, f.`error_type` AS `error_type`, f.`attempts` AS `attempts`, f.`input` AS `input`, f.`output` AS `output`, f.`reasoning` AS `reasoning`, f.`cache_read` AS `cache_read`, f.`cache_write` AS `cache_write`, f.`lower_bound` AS `lower_bound`, f.`purpose` AS `purpose`, f.`cost` AS `cost`, f.`currency` AS `currency`, f.`request_messages` AS `request_messages`, f.`request_bytes` AS `request_bytes`, f.`tool_calls` AS `tool_calls`, f.`trace` AS `trace`
FROM (SELECT *
FROM `db`.`turns_raw` FINAL) AS f GLOBAL INNER JOIN (SELECT tenant, session, mark
FROM `db`.`summaries` FINAL
WHERE (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM `db`.`deletions` FINAL
WHERE done = 0)) AS s USING (tenant, session)
WHERE f.mark >= s.mark;

CREATE VIEW IF NOT EXISTS `db`.`tool_calls` ON CLUSTER `c`
AS SELECT tenant, session, f.`run` AS `run`, f.`run_start_ns` AS `run_start_ns`, f.`turn` AS `turn`, f.`call` AS `call`, f.`start_ns` AS `start_ns`, f.`end_ns` AS `end_ns`, f.`agent` AS `agent`, f.`model` AS `model`, f.`tool` AS `tool`, f.`outcome` AS `outcome`, f.`failed` AS `failed`
FROM (SELECT *
FROM `db`.`tool_calls_raw` FINAL) AS f GLOBAL INNER JOIN (SELECT tenant, session, mark
FROM `db`.`summaries` FINAL
WHERE (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM `db`.`deletions` FINAL
WHERE done = 0)) AS s USING (tenant, session)
WHERE f.mark >= s.mark;

CREATE VIEW IF NOT EXISTS `db`.`compactions` ON CLUSTER `c`
AS SELECT tenant, session, f.`run` AS `run`, f.`run_start_ns` AS `run_start_ns`, f.`turn` AS `turn`, f.`start_ns` AS `start_ns`, f.`end_ns` AS `end_ns`, f.`kind` AS `kind`, f.`trigger` AS `trigger`, f.`input_tokens` AS `input_tokens`, f.`output_tokens` AS `output_tokens`, f.`messages_before` AS `messages_before`, f.`messages_after` AS `messages_after`, f.`used_input` AS `used_input`, f.`used_output` AS `used_output`, f.`lower_bound` AS `lower_bound`, f.`cost` AS `cost`, f.`currency` AS `currency`
FROM (SELECT *
FROM `db`.`compactions_raw` FINAL) AS f GLOBAL INNER JOIN (SELECT tenant, session, mark
FROM `db`.`summaries` FINAL
WHERE (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM `db`.`deletions` FINAL
WHERE done = 0)) AS s USING (tenant, session)
WHERE f.mark >= s.mark;

CREATE VIEW IF NOT EXISTS `db`.`permission_evaluations` ON CLUSTER `c`
AS SELECT tenant, session, f.`run` AS `run`, f.`run_start_ns` AS `run_start_ns`, f.`turn` AS `turn`, f.`at_ns` AS `at_ns`, f.`wait_ns` AS `wait_ns`, f.`tool` AS `tool`, f.`action` AS `action`, f.`source` AS `source`
FROM (SELECT *
FROM `db`.`permission_evaluations_raw` FINAL) AS f GLOBAL INNER JOIN (SELECT tenant, session, mark
FROM `db`.`summaries` FINAL
WHERE (tenant, session) GLOBAL NOT IN (SELECT tenant, session
FROM `db`.`deletions` FINAL
WHERE done = 0)) AS s USING (tenant, session)
WHERE f.mark >= s.mark;

