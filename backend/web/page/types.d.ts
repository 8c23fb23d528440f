// The JSON of the API (docs/api.md), as far as the page shows it. Go documents each field: inspect/view.go, inspect/request.go,
// session/summary.go, backend/store/stats. Times are RFC 3339 with nanoseconds, durations in nanoseconds.

export interface About { version?: string; database?: string; tenant?: string; tenants?: string[]; links?: Record<string, string>; live?: boolean }

export interface Usage { input: number; output: number; reasoning: number; cache_read: number; cache_write: number; lower_bound?: boolean }

export type Status = 'idle' | 'busy' | 'retrying' | 'waiting_on_approval' | 'waiting_on_user_input' | 'error' | 'aborted';

export interface Summary {
  tenant?: string; id: string; parent?: string; status: Status; agent?: string; agent_id?: string; model?: string; dialect?: string;
  start: string; last: string; runs: number; turns: number; tool_calls: number; errors: number; denied: number; defects: number;
  usage: Usage; title?: string; archived?: boolean; cost?: number; currency?: string; heartbeat_ns?: number;
}
export interface SessionList { format: number; sessions: Summary[] | null; next?: string }

export interface Finding { code: string; text: string; observation?: boolean }
export interface OutlineFact { subject: string; key: string; value?: unknown; at: string }
export interface OutlineRun {
  number: number; id: string; address: string; status: string; status_word?: string; agent?: string; model?: string; start?: string; end?: string;
  estimated?: boolean; usage: Usage; usage_told?: boolean; turns: number; parent?: number; relation?: string; spawned_by?: string; hidden?: boolean; copied?: boolean;
  group?: string; error?: string; defects?: Finding[];
}
export interface OutlineCall { id?: string; name: string; outcome?: string; state?: string; start?: string; end?: string }
export interface OutlineMark { kind: string; run: number; at: string; text: string; action?: string }
export interface OutlineTurn {
  run: number; index: number; address: string; start?: string; end?: string; state?: string; trigger?: string; purpose?: string; model?: string; stop_reason?: string;
  failed?: boolean; attempts?: number; usage: Usage; usage_told?: boolean; cost?: number; currency?: string; model_call_ns?: number; request_messages?: number;
  request_bytes?: number; prompt_changed?: boolean; tools_changed?: boolean; text?: string; calls?: OutlineCall[]; marks?: OutlineMark[];
  defects?: number; live?: boolean; hidden?: boolean;
}
export interface OutlineChild { session: string; run?: string; kind: string; agent?: string; status?: Status; from?: string }
export interface OutlineTool { name: string; calls: number; failed?: number; denied?: number }
export interface Outline {
  format: number; summary: Summary; origin?: { name: string; lacks?: string[] }; status: Status; mark: number; facts?: OutlineFact[]; defects?: Finding[]; runs: OutlineRun[] | null;
  turns: OutlineTurn[] | null; turn_defects?: (Finding & { turn: number })[]; marks?: OutlineMark[]; children?: OutlineChild[]; tools?: OutlineTool[]; captured: boolean;
  fork?: { session: string; message?: string; run?: number };
  messages?: { id: string; hidden?: string; queued?: string; canceled?: string; waiting?: boolean; run?: number }[];
}

export interface Body { text?: string; cut?: boolean; bytes?: number; block?: string; state?: string }
export interface Said { label: string; text: Body; from?: string }
export interface EventView { at?: string; type: string; text?: Body }
export interface PermissionView {
  at?: string; action?: string; tool?: string; rule?: string; source?: string; decided_by?: string; reason?: string; answer?: string;
  wait_ns?: number; waiting?: boolean; inferred?: boolean;
}
export interface CallView extends OutlineCall {
  address: string; input?: Body; output?: Body; error?: string; truncated?: boolean; children?: string[]; permissions?: PermissionView[];
  permission_state?: string; events?: EventView[]; findings?: Finding[];
}
export interface CompactionView {
  at?: string; kind: string; trigger?: string; reason?: string; messages_before?: number; messages_after?: number; tokens_before?: number;
  tokens_after?: number; applied?: boolean; usage?: Usage; summary?: Body;
}
export interface RequestView { address: string; attempt: number; messages: number; new: number; bytes?: number; exact?: boolean; missing?: number }
export interface TurnView extends OutlineTurn {
  variant?: string; reasoning_level?: string; temperature?: number; max_tokens?: number; provider?: string; discarded_usage?: Usage;
  first_chunk_ns?: number; trace_id?: string; span_id?: string; error_type?: string; error?: string; capture?: string; prompt_digest?: string;
  system?: Body; offered?: string[]; called?: string[]; rules?: Body; rules_state?: string; input?: Said[]; output?: Said[]; partial?: boolean;
  tool_calls?: CallView[]; permissions?: PermissionView[]; compactions?: CompactionView[]; events?: EventView[]; requests?: RequestView[];
  findings?: Finding[];
}
export interface TurnPage { format: number; mark: number; turns: TurnView[] | null }

export interface Provenance { kind?: string; name?: string; order?: number; tier?: string; record_id?: string; turn_index?: number; role?: string; message_index?: number }
export interface RequestPart {
  index?: number; provenance?: Provenance | string; role?: string; bytes?: number; block?: string; new?: boolean; state?: string;
  redacted?: boolean; body?: unknown;
}
export interface MissingPart { part: string; position?: number; block?: string; withheld?: boolean; bytes?: number; have?: number }
export interface RequestJSON {
  format: number; address: string; tenant?: string; session: string; run: string; run_number: number; turn: number; attempt: number; attempts: number;
  capture?: string; model?: string; provider?: string; bytes?: number; sha256?: string; exact: boolean; redacted?: boolean; stated_bytes?: number;
  system?: RequestPart; tools?: RequestPart; params?: RequestPart; message_count: number; messages?: RequestPart[];
  misaligned?: boolean; missing?: MissingPart[]; defects?: { code: string; detail?: string }[];
}

export interface Bucket { le: number; n: number }
export interface Dist { n: number; sum: number; min: number; p50: number; p90: number; p99: number; max: number; buckets: Bucket[] }
export interface Cost { currency: string; amount: number; turns: number; compactions?: number }
export interface StatsGroup {
  name?: string; sessions: number; turns: number; failed: number; retries: number; without_usage: number; utility?: number; lower_bound?: boolean; input?: Dist; output?: Dist;
  cache_read?: Dist; cache_write?: Dist; reasoning?: Dist; duration_ns?: Dist; model_call_ns?: Dist; first_chunk_ns?: Dist; cache_rate?: number;
  cache_idle?: boolean; cost?: Cost[]; computed_cost?: Cost; tool_calls: number; tool_outcomes?: Record<string, number>; tool_duration_ns?: Dist;
}
export interface StatsTool { name: string; calls: number; outcomes: Record<string, number>; duration_ns?: Dist }
export interface StatsReport {
  format: number; by?: string; total: StatsGroup; groups?: StatsGroup[]; tools?: StatsTool[];
  compactions?: { kind: string; trigger: string; n: number; input_tokens?: Dist; output_tokens?: Dist; used_input_tokens?: Dist; used_output_tokens?: Dist; lower_bound?: boolean }[];
  permissions?: { action: string; source: string; n: number; wait_ns?: Dist }[];
  no_price?: { provider?: string; model: string; turns: number }[];
}

export interface DiffWord { op: string; text: string }
export interface DiffLine { op: string; text: string; words?: DiffWord[] }
export interface TextDiff { before_bytes: number; after_bytes: number; removed?: number; added?: number; hunks?: { a: number; b: number; lines: DiffLine[] }[]; cut?: boolean; coarse?: boolean }
export interface DiffMessage { block: string; position: number; role?: string; bytes?: number }
export interface Change {
  part: string; path: string; change: string; before?: unknown; after?: unknown; unit?: string; text?: TextDiff; digest_a?: string; digest_b?: string;
  a?: DiffMessage; b?: DiffMessage;
}
export interface DiffUnknown { part: string; why: string; side: string; turns?: number }
export interface DiffSide {
  address: string; source?: string; tenant?: string; session: string; agent?: string; model?: string; status?: string; start?: string; took_ns?: number;
  runs: number; turns: number; calls: number; messages?: number; bytes?: number; usage: Usage; cost?: Record<string, number>;
}
export interface DiffPlace {
  address?: string; id?: string; run?: number; index?: number; relation?: string; agent?: string; model?: string; status?: string; start?: string;
  took_ns?: number; usage: Usage; cost?: number; currency?: string; hidden?: boolean; asked?: boolean; children?: string[];
}
export interface DiffPair {
  state: string; name?: string; a?: DiffPlace; b?: DiffPlace; parts?: string[]; repeats?: string[]; changes?: Change[]; not_compared?: DiffUnknown[];
  calls?: DiffPair[]; turns?: DiffPair[];
}
export interface Diff {
  format: number; kind: string; equal: boolean; a: DiffSide; b: DiffSide; first?: { same_a?: string; same_b?: string; a?: string; b?: string; parts?: string[] };
  counts: { same: number; changed: number; only_a: number; only_b: number; unknown: number; repeats: number }; not_compared?: DiffUnknown[]; ignored?: string[];
  compactions?: { kind: string; messages_before?: number; messages_after?: number; input_tokens?: number; output_tokens?: number }[];
  runs: DiffPair[];
}

export interface Replay {
  format: number; address: string; session: string; run: string; run_number: number; turn: number; attempt?: number; model?: string; provider?: string;
  eligible: boolean; reasons?: string[]; inputs: { input: string; detail: string }[]; notes?: string[]; suggested_form: string; missing?: MissingPart[]; defects?: { code: string; detail?: string }[];
  body?: { form: string; unchanged: boolean; bytes: number; notes?: string[]; json: unknown };
}

export interface Hit {
  session: string; address: string; run?: string; turn?: number; place: string; call?: string; tool?: string; at?: string; before?: string; match: string;
  after?: string; matches: number; further?: number; hidden?: boolean; block: string;
}
export interface SearchResult { format: number; hits: Hit[] | null; sessions: number; more?: boolean }
