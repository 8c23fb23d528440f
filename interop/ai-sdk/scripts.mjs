// What the SDK is fed with. Each script is one exchange: what the user says, and the chunks of the answer.
//
// steps are done in order, on the same assistant message: chunks goes through the reducer, answer goes through the chat's
// addToolApprovalResponse. only names the release that knows the chunks.

const open = (id) => [{ type: "start", messageId: id }, { type: "start-step" }];
const close = (usage, finishReason = "stop") => [
  { type: "finish-step" },
  {
    type: "finish",
    finishReason,
    messageMetadata: { usage, model: { provider_id: "example", model_id: "large-1" } },
  },
];
const say = (id, ...deltas) => [
  { type: "text-start", id },
  ...deltas.map((delta) => ({ type: "text-delta", id, delta })),
  { type: "text-end", id },
];
const step = [{ type: "finish-step" }, { type: "start-step" }];
const usage = (input, output, reasoning = 0, cache_read = 0, cache_write = 0) => ({ input, output, reasoning, cache_read, cache_write });
const input = (toolCallId, toolName, value, more = {}) => ({ type: "tool-input-available", toolCallId, toolName, input: value, ...more });
const output = (toolCallId, value, more = {}) => ({ type: "tool-output-available", toolCallId, output: value, ...more });

const user = (...parts) => parts.map((part) => (typeof part === "string" ? { type: "text", text: part } : part));

const png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

export const scripts = [
  {
    name: "text-and-reasoning",
    user: user("Why do the tests fail?"),
    steps: [
      {
        chunks: [
          ...open("msg"),
          { type: "reasoning-start", id: "r1" },
          { type: "reasoning-delta", id: "r1", delta: "Check " },
          { type: "reasoning-delta", id: "r1", delta: "the manifest.", providerMetadata: { example: { signature: "c2ln" } } },
          { type: "reasoning-end", id: "r1", providerMetadata: { example: { signature: "c2lnbmF0dXJl", redacted: null } } },
          ...say("t1", "The range ", "end is ", "off by one."),
          { type: "text-start", id: "t2", providerMetadata: { example: { itemId: "item_2" } } },
          { type: "text-delta", id: "t2", delta: "Grüße 🦀 \u2028 <b>&amp;</b> \u0000 \"quoted\" back\\slash\n" },
          { type: "text-end", id: "t2" },
          ...close(usage(812, 121, 22, 0, 700)),
        ],
      },
    ],
  },
  {
    name: "tools",
    user: user("Fix it.", { type: "file", mediaType: "image/png", filename: "screen.png", url: png }),
    steps: [
      {
        chunks: [
          ...open("msg"),
          { type: "tool-input-start", toolCallId: "call_1", toolName: "read" },
          { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: '{"path":"sr' },
          { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: 'c/range.rs"}' },
          input("call_1", "read", { path: "src/range.rs" }, { providerMetadata: { example: { item: 1 } } }),
          output("call_1", { type: "output", data: { text: "0..n-1" }, metadata: { duration_ms: 12 } }),
          input("call_2", "multi-word_tool", {}, { title: "Several words" }),
          output("call_2", null),
          ...step,
          input("call_3", "bash", { cmd: "cargo test" }),
          output("call_3", "running", { preliminary: true }),
          output("call_3", "running 2 tests", { preliminary: true }),
          output("call_3", "ok"),
          input("call_4", "bash", { cmd: "false" }),
          { type: "tool-output-error", toolCallId: "call_4", errorText: "exit 1" },
          { type: "tool-input-error", toolCallId: "call_5", toolName: "edit", input: '{"path":', errorText: "not JSON" },
          input("call_6", "web_search", { query: "ranges" }, { providerExecuted: true }),
          output("call_6", [{ title: "a", n: 1e21, tiny: 5e-324, big: 12345678901234567890 }], { providerExecuted: true }),
          ...step,
          ...say("t1", "Fixed."),
          ...close(usage(2000, 40)),
        ],
      },
    ],
  },
  {
    name: "dynamic-tools",
    user: user("Ask the servers."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          { type: "tool-input-start", toolCallId: "call_1", toolName: "docs_search", dynamic: true, title: "Search the docs" },
          { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: '{"q":"off by one"}' },
          input("call_1", "docs_search", { q: "off by one" }, { dynamic: true, title: "Search the docs" }),
          output("call_1", [{ title: "a" }], { dynamic: true }),
          input("call_2", "docs_search", { q: "" }, { dynamic: true }),
          { type: "tool-output-error", toolCallId: "call_2", errorText: "empty query", dynamic: true },
          { type: "tool-input-error", toolCallId: "call_3", toolName: "docs_get", input: { id: "x" }, errorText: "no such tool", dynamic: true },
          ...close(usage(300, 30), "tool-calls"),
        ],
      },
    ],
  },
  {
    name: "sources-files-data",
    user: user("Show me."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          { type: "source-url", sourceId: "s1", url: "https://example.org/rust", title: "Ranges", providerMetadata: { example: { rank: 1 } } },
          { type: "source-document", sourceId: "s2", mediaType: "application/pdf", title: "Spec", filename: "spec.pdf" },
          { type: "file", mediaType: "image/png", url: png },
          { type: "data-chart", id: "d1", data: { points: [1] } },
          { type: "data-progress", data: { percent: 50 }, transient: true },
          { type: "data-chart", id: "d1", data: { points: [1, 2] } },
          {
            type: "data-edge",
            data: {
              z: 1,
              a: { y: [[], {}, null, true, -0.5, 1e-7], x: "" },
              "10": "an integer key comes first",
              html: "<a href='x'>&\u2029</a>",
              surrogate: "\ud800",
              "": "empty key",
            },
          },
          ...say("t1", "See above."),
          ...close(usage(100, 10)),
        ],
      },
    ],
  },
  {
    name: "approval-requested",
    user: user("Delete the build."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "bash", { cmd: "rm -rf target" }),
          { type: "tool-approval-request", approvalId: "ap_1", toolCallId: "call_1" },
          ...close(usage(50, 5), "tool-calls"),
        ],
      },
    ],
  },
  {
    name: "approval-responded",
    user: user("Delete the build, please."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "bash", { cmd: "rm -rf target" }),
          { type: "tool-approval-request", approvalId: "ap_1", toolCallId: "call_1" },
          input("call_2", "bash", { cmd: "rm -rf /" }),
          { type: "tool-approval-request", approvalId: "ap_2", toolCallId: "call_2" },
          ...close(usage(60, 6), "tool-calls"),
        ],
      },
      { answer: { id: "ap_1", approved: true } },
      { answer: { id: "ap_2", approved: false, reason: "not that" } },
    ],
  },
  {
    name: "approval-carried-out",
    user: user("Delete the build and the root."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "bash", { cmd: "rm -rf target" }),
          { type: "tool-approval-request", approvalId: "ap_1", toolCallId: "call_1" },
          input("call_2", "bash", { cmd: "rm -rf /" }),
          { type: "tool-approval-request", approvalId: "ap_2", toolCallId: "call_2" },
          input("call_3", "bash", { cmd: "rm -rf dist" }),
          { type: "tool-approval-request", approvalId: "ap_3", toolCallId: "call_3" },
          ...close(usage(70, 7), "tool-calls"),
        ],
      },
      { answer: { id: "ap_1", approved: true, reason: "ok once" } },
      { answer: { id: "ap_2", approved: false, reason: "not that" } },
      { answer: { id: "ap_3", approved: true } },
      {
        chunks: [
          { type: "start" },
          output("call_1", { exit: 0 }),
          { type: "tool-output-denied", toolCallId: "call_2" },
          { type: "tool-output-error", toolCallId: "call_3", errorText: "no such directory" },
          { type: "start-step" },
          ...say("t1", "Deleted one of three."),
          ...close(usage(170, 17)),
        ],
      },
    ],
  },
  {
    name: "aborted-text-and-input",
    user: user("Tell me a long story."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          { type: "reasoning-start", id: "r1" },
          { type: "reasoning-delta", id: "r1", delta: "A story ab" },
          { type: "text-start", id: "t1" },
          { type: "text-delta", id: "t1", delta: "half a sen" },
          { type: "tool-input-start", toolCallId: "call_1", toolName: "read" },
          { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: '{"path":"sr' },
          { type: "tool-input-start", toolCallId: "call_2", toolName: "docs_get", dynamic: true },
          { type: "tool-input-delta", toolCallId: "call_2", inputTextDelta: '{"id":[1,' },
          { type: "abort", reason: "stopped by the user" },
        ],
      },
    ],
  },
  {
    name: "aborted-while-tool-runs",
    user: user("Run it."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "bash", { cmd: "sleep 600" }),
          input("call_2", "docs_search", { q: "x" }, { dynamic: true }),
          output("call_2", { so: "far" }, { dynamic: true, preliminary: true }),
          { type: "abort" },
        ],
      },
    ],
  },
  {
    name: "stream-error",
    user: user("Once more."),
    steps: [
      {
        chunks: [...open("msg"), ...say("t1", "Let me "), { type: "error", errorText: "overloaded" }, ...close(usage(10, 2), "error")],
        errors: ["overloaded"],
      },
    ],
  },
  {
    name: "steering",
    only: "v7",
    user: user("Look around."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          ...say("t1", "Looking."),
          ...step,
          { type: "steering-message", id: "st_1", parts: [{ type: "text", text: "Only in src." }, { type: "file", mediaType: "image/png", url: png }] },
          ...say("t2", "Only there."),
          { type: "custom", kind: "example.compaction", providerMetadata: { example: { blob: "AAEC" } } },
          { type: "reasoning-file", mediaType: "image/png", url: png },
          { type: "text-start", id: "t3" },
          { type: "text-delta", id: "t3", delta: "Cited." },
          {
            type: "text-end",
            id: "t3",
            citations: [{ startIndex: 0, endIndex: 5, source: { type: "source", sourceType: "url", id: "s1", url: "https://example.org/", title: "Example" } }],
          },
          ...close(usage(90, 9), "interrupted"),
        ],
      },
    ],
  },
  {
    name: "reset-step-and-raw-input",
    only: "v7",
    user: user("Try twice."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          ...say("t1", "kept"),
          ...step,
          ...say("t2", "taken back"),
          { type: "reset-step" },
          { type: "tool-input-start", toolCallId: "call_1", toolName: "patch", inputEncoding: "text", toolMetadata: { origin: "example" } },
          { type: "tool-input-delta", toolCallId: "call_1", inputTextDelta: "*** Begin Patch\n+ a" },
          { type: "abort" },
        ],
      },
    ],
  },
  {
    name: "approval-in-the-stream",
    only: "v7",
    user: user("Approve by yourself."),
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "write", { path: "/etc/x" }),
          { type: "tool-approval-request", approvalId: "ap_1", toolCallId: "call_1", isAutomatic: true, reason: "outside", signature: "c2ln", approvalDescriptor: { kind: "path" }, inputSchemaInput: { path: "/etc/x" } },
          { type: "tool-approval-response", approvalId: "ap_1", approved: false, reason: "outside workspace" },
          { type: "tool-output-denied", toolCallId: "call_1" },
          input("call_2", "write", { path: "a" }),
          { type: "tool-approval-request", approvalId: "ap_2", toolCallId: "call_2" },
          { type: "tool-approval-response", approvalId: "ap_2", approved: true, providerExecuted: true },
          ...close(usage(80, 8), "tool-calls"),
        ],
      },
    ],
  },
  {
    name: "demoted-tools",
    only: "v7",
    user: user("A tool that is gone."),
    demote: true, // the SDK's validation without the tool makes a dynamic-tool part of it
    steps: [
      {
        chunks: [
          ...open("msg"),
          input("call_1", "gone", { a: 1 }, { title: "Gone" }),
          output("call_1", { b: 2 }),
          ...close(usage(20, 2)),
        ],
      },
    ],
  },
];
