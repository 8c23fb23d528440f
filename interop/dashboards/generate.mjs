// Writes the dashboards into a folder, or with --check compares them with what is there.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { agents } from './agents.mjs';
import { pipeline } from './pipeline.mjs';
import { session } from './session.mjs';
import { clickhouse, sqlite } from './sql.mjs';

const files = { 'agents.json': agents(), 'session.json': session(sqlite), 'session-clickhouse.json': session(clickhouse), 'pipeline.json': pipeline() };

const check = process.argv[2] === '--check';
const folder = process.argv[check ? 3 : 2];
let stale = 0;
for (const [name, dashboard] of Object.entries(files)) {
  const path = join(folder, name);
  const text = `${JSON.stringify(dashboard, null, 2)}\n`;
  if (!check) writeFileSync(path, text);
  else if (readFileSync(path, 'utf8') !== text) {
    console.error(`${path} is stale: run interop/dashboards/run.sh generate`);
    stale++;
  }
}
if (stale) process.exit(1);
console.log(`${Object.keys(files).length} dashboards ${check ? 'are as generated' : 'written'}`);
