// same.mjs A B: the parts of two guide exports are the same, data_json to the letter. Exit 1 at the first difference.

import { readMessages } from "./rows.mjs";

// data_json as it stands; of a parsed object its keys in their order.
const text = (row) => {
  const data = row.data_json ?? row.data;
  return typeof data === "string" ? data : JSON.stringify(data);
};

const flat = (file) =>
  readMessages(file).flatMap(({ where, row: { id, role }, parts }) => [
    { where, what: { message: id, role } },
    ...parts.map(({ where, row }) => ({
      where,
      what: { part: row.id, index: row.index, type: row.type, tool_call_id: row.tool_call_id ?? null, tool_state: row.tool_state ?? null, data: text(row) },
    })),
  ]);

const files = process.argv.slice(2);
if (files.length !== 2) {
  console.error("usage: same.mjs A B");
  process.exit(2);
}
const [a, b] = files.map(flat);
for (let i = 0; i < Math.max(a.length, b.length); i++) {
  const [left, right] = [JSON.stringify(a[i]?.what), JSON.stringify(b[i]?.what)];
  if (left === right) continue;
  console.error(`${a[i]?.where ?? files[0]}: ${left ?? "(end)"}\n${b[i]?.where ?? files[1]}: ${right ?? "(end)"}`);
  process.exit(1);
}
if (!a.length) {
  console.error(`${files[0]}: no parts`);
  process.exit(1);
}
console.log(`same: ${a.filter(({ what }) => what.part).length} parts of ${a.filter(({ what }) => what.message).length} messages`);
