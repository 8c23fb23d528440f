// The published JSON Schema of ACP v1, as the SDK ships it, by method.

import { createRequire } from "node:module";
import Ajv from "ajv/dist/2020.js";

const { $defs } = createRequire(import.meta.url)("@agentclientprotocol/sdk/schema/v1/schema.json");

// ACP forbids keys of one's own outside of _meta; the schema alone lets them pass. Here every place that holds
// an object refuses what none of the schemas for it names.
function closed(schema, isPlace) {
  if (Array.isArray(schema)) return schema.map((s) => closed(s, false));
  if (typeof schema !== "object" || schema === null) return schema;
  const copy = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === "properties") {
      copy[key] = Object.fromEntries(Object.entries(value).map(([name, s]) => [name, closed(s, true)]));
    } else if (["default", "enum", "const"].includes(key)) {
      copy[key] = value;
    } else {
      copy[key] = closed(value, key === "items");
    }
  }
  const saysWhat = ["$ref", "allOf", "anyOf", "oneOf", "properties"].some((key) => key in schema);
  if (isPlace && saysWhat && !("additionalProperties" in schema)) copy.unevaluatedProperties = false;
  return copy;
}

function ajvWith(options) {
  const ajv = new Ajv({ strict: false, validateFormats: false, ...options });
  const schemas = Object.entries($defs).map(([name, schema]) => [name, closed(schema, false)]);
  return ajv.addSchema({ $id: "acp", $defs: Object.fromEntries(schemas) });
}

// The judge goes through every alternative, and so its errors do. The explainer looks at the one that the tag names; it
// alone would be wrong where the object around the alternatives has keys too (ajv 8.20.0, SessionConfigOption).
const judge = ajvWith({});
const explainer = ajvWith({ discriminator: true });

function compile(name) {
  const place = { $ref: `acp#/$defs/${name}`, unevaluatedProperties: false };
  const validate = judge.compile(place);
  validate.explain = explainer.compile(place);
  return validate;
}

// method -> {side, request, response, notification}: who receives it ("agent", "client" or "protocol"), and validators.
export const methods = new Map();
for (const [name, schema] of Object.entries($defs)) {
  if (!schema["x-method"]) continue;
  const entry = methods.get(schema["x-method"]) ?? { side: schema["x-side"] };
  entry[/(Request|Response|Notification)$/.exec(name)[1].toLowerCase()] = compile(name);
  methods.set(schema["x-method"], entry);
}

export const errorObject = compile("Error");

// Why value is not what validate wants, or undefined. Tells places and rules, not values.
export function fault(validate, value) {
  if (validate(value)) return undefined;
  const errors = validate.explain(value) ? validate.errors : validate.explain.errors;
  const depth = ({ instancePath }) => instancePath.split("/").length;
  const deepest = Math.max(...errors.map(depth));
  const say = ({ instancePath, message, params }) =>
    `${instancePath || "/"} ${message}${params.unevaluatedProperty ? ` (${params.unevaluatedProperty})` : ""}`;
  return [...new Set(errors.filter((error) => depth(error) === deepest).map(say))].slice(0, 3).join("; ");
}
