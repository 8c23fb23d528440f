// Writes the dashboards and a list of what they ask into a folder, or with --check compares them with what is there.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { agents } from './agents.mjs';
import { pipeline } from './pipeline.mjs';
import { session } from './session.mjs';
import { sketch } from './sketch.mjs';
import { clickhouse, sqlite } from './sql.mjs';

const dashboards = { 'agents.json': agents(), 'session.json': session(sqlite), 'session-clickhouse.json': session(clickhouse), 'pipeline.json': pipeline() };

// questions lists what is asked, for people who have no Grafana at hand.
const questions = () => {
  const lines = ['<!-- Written by interop/dashboards. Do not edit. -->', '# What the dashboards ask', ''];
  for (const [name, d] of Object.entries(dashboards)) {
    if (name === 'session-clickhouse.json') continue; // as session.json
    lines.push(`## ${d.title}`, '', d.description, '');
    for (const p of d.panels) {
      if (p.type === 'row') lines.push(`### ${p.title}`, '', '| question | unit | what an answer means | when it looks bad |', '|---|---|---|---|');
      else {
        const [means, bad] = p.description.replaceAll('|', '\\|').split('\n\n**When it looks bad:** ');
        lines.push(`| ${p.title} | ${p.fieldConfig.defaults.unit} | ${means} | ${bad} |`);
      }
      const next = d.panels[d.panels.indexOf(p) + 1];
      if (!next || next.type === 'row') lines.push('');
    }
  }
  return lines.join('\n');
};
const files = { 'questions.md': questions() };
for (const [name, d] of Object.entries(dashboards)) {
  files[name] = `${JSON.stringify(d, null, 2)}\n`;
  if (name !== 'session-clickhouse.json') files[name.replace('.json', '.svg')] = sketch(d);
}

const check = process.argv[2] === '--check';
const folder = process.argv[check ? 3 : 2];
let stale = 0;
for (const [name, text] of Object.entries(files)) {
  const path = join(folder, name);
  if (!check) writeFileSync(path, text);
  else if (readFileSync(path, 'utf8') !== text) {
    console.error(`${path} is stale: run interop/dashboards/run.sh generate`);
    stale++;
  }
}
if (stale) process.exit(1);
console.log(`${Object.keys(dashboards).length} dashboards ${check ? 'are as generated' : 'written'}`);
