// The releases of the AI SDK that everything here is done with.

import { readFileSync } from "node:fs";
import * as v6 from "ai-v6";
import * as v7 from "ai-v7";

function version(alias) {
  const url = new URL(`node_modules/${alias}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")).version;
}

// Warnings of the SDK about its own deprecations would hide what matters here.
globalThis.AI_SDK_LOG_WARNINGS = false;

export const sdks = [
  { name: "v6", version: version("ai-v6"), ai: v6 },
  { name: "v7", version: version("ai-v7"), ai: v7 },
];
