/** Recorded: requests that are meant to keep a processor busy. All are answered; none may hold up the event loop. */
import type { Attack } from "./bodies.ts"

const node = { id: "a", handler: "transform", config: { value: 1 } }
const workflow = (name: string, input: object) => ({ name, input, nodes: [node] })
const strings = (count: number) => Array.from({ length: count }, (_, i) => `s${i}`)

const configured = (handler: string, config: object) => ({ id: "a", handler, config })
const keyed = (count: number) => Object.fromEntries(strings(count).map(key => [key, 1]))

/** Stored before the attacks begin. */
export const hostileWorkflows = [
  workflow("pattern", { properties: { a: { pattern: "^(a+)+$" } } }),
  workflow("unique", { properties: { a: { uniqueItems: true } } }),
  workflow("url", { properties: { a: { format: "url" } } }),
  workflow("uri", { properties: { a: { items: { format: "uri" } } } }),
  workflow("plain", { properties: { a: { type: "string" } } }),
  { name: "keys", nodes: [configured("transform", { value: keyed(6000) })] },
  { name: "mappings", nodes: [configured("transform", { value: Array(15_000).fill({ a: 1 }) })] },
  { name: "text", nodes: [configured("transform", { value: "{{ 'a' * 1000000 }}" })] },
  {
    name: "copies",
    nodes: [configured("transform", { value: "{{ 'a' * 1000000 }}" })],
    output: Array(100).fill("{{ a }}"),
  },
  workflow("wide", {
    properties: { a: { items: { anyOf: Array.from({ length: 1000 }, () => ({ type: "null" })) } } },
  }),
  workflow("doubling", {
    properties: { a: { $ref: "#/$defs/s0" } },
    $defs: Object.fromEntries([
      ...Array.from({ length: 7 }, (_, i) => [
        `s${i}`,
        { allOf: [{ $ref: `#/$defs/s${i + 1}` }, { $ref: `#/$defs/s${i + 1}` }] },
      ]),
      ["s7", { properties: { a: { $ref: "#/$defs/s0" } } }],
    ]),
  }),
]

const bulk = (name: string, input: unknown, count: number) =>
  JSON.stringify({ jobs: Array.from({ length: count }, () => ({ workflow: name, input })) })
const nested = (depth: number): unknown => (depth === 0 ? {} : { a: nested(depth - 1) })
const repeated = (unit: string, start = "") =>
  (start + unit.repeat(Math.ceil(8000 / unit.length))).slice(0, 8000)

/** About as many parts as a body may have (`src/server/http/body.ts`), each kind as costly as it can be. */
const values = (item: (i: number) => string, parts: number, most: number) =>
  Array.from({ length: Math.floor(most / parts) }, (_, i) => item(i)).join()
/** For documents. */
const list = (item: (i: number) => string, parts: number) => `[${values(item, parts, 269_000)}]`
const kinds: Readonly<Record<string, (most: number) => string>> = {
  "empty lists": most => `[${values(() => "[]", 3, most)}]`,
  "lists in lists": most => `[${values(() => "[".repeat(40) + "]".repeat(40), 81, most)}]`,
  "short texts": most => `[${values(i => `"s${i}"`, 2, most)}]`,
  numbers: most => `[${values(i => `${i % 10}e-300`, 1, most)}]`,
  "mappings, each with a key of its own": most => `[${values(i => `{"k${i}":1}`, 15, most)}]`,
  "a mapping of many keys": most => `{${values(i => `"k${i}":1`, 13, most)}}`,
}
const node0 = '"nodes": [{"id": "a", "handler": "input"}]'
const structures: readonly Attack[] = Object.entries(kinds).flatMap(([what, make], n) => {
  const value = make(199_000)
  const document = make(269_000)
  const attacks = [
    ["/jobs", `{"workflow": "pattern", "input": {"b": ${value}}}`, [201, 503]],
    ["/jobs", `{"workflow": "own", "input": {"b": ${value}}}`, 201],
    ["/jobs", `{"workflow": "own", "inputs": ${value}}`, 400],
    ["/jobs", value, 400],
    ["/workflows/validate", document, 422],
    ["/workflows/validate", document.slice(0, -1), 422],
    [
      "/workflows",
      `{"name": "c${n}", "nodes": [{"id": "a", "handler": "transform", "config": {"value": ${document}}}]}`,
      [201, 422],
    ],
    [
      "/workflows",
      `{"name": "s${n}", ${node0}, "input": {"properties": {"a": {"enum": [${document}]}}}}`,
      [201, 422],
    ],
    // Larger than it may be, though not in bytes.
    ["/jobs", `{"workflow": "own", "input": [${`${value},`.repeat(2)}0]}`, 413],
  ] as const
  return attacks.map(([path, body, status]) => {
    return { what: `${what}: ${path} ${body.slice(0, 40)}`, path, body, status }
  })
})
const others: readonly Attack[] = [
  {
    what: "a schema of 3 MB",
    path: "/workflows",
    body: `{"name": "schema", ${node0}, "input": {"properties": {${Array.from({ length: 9000 }, (_, i) => `"k${i}": {"type": "string", "description": "${"x".repeat(280)}"}`).join()}}}}`,
    status: 201,
  },
  {
    what: "labels that do not fit",
    path: "/jobs/bulk",
    body: `{"jobs": [${Array(1000).fill(`{"workflow": "own", "labels": {${strings(10).map(key => `"${key}": 1`)}}}`)}]}`,
    status: 400,
  },
  {
    what: "more of them",
    path: "/jobs/bulk",
    body: `{"jobs": [${Array(900).fill(`{"workflow": "own", "labels": {${strings(150).map(key => `"${key}": 1`)}}}`)}]}`,
    status: 400,
  },
]

/** A document with one node, whose config is wrong or costly as often as a body allows. */
const configs: readonly Attack[] = (
  [
    ["statuses that are none", "call_external_service", ["expected_status", list(() => "1", 1)], 422],
    [
      "statuses of which the last are none",
      "call_external_service",
      ["expected_status", list(i => (i < 260_000 ? "200" : "1"), 1)],
      422,
    ],
    [
      "headers that are none",
      "call_external_service",
      ["headers", `{${list(i => `"h${i}":[]`, 15).slice(1, -1)}}`],
      422,
    ],
    ["messages that are none", "llm_service", ["messages", list(() => "1", 1)], 422],
    ["empty messages", "llm_service", ["messages", list(() => "{}", 3)], 422],
    ["templates that are none", "transform", ["value", list(i => `"{{ a${i} + }}"`, 45)], 422],
    ["templates that read nothing", "transform", ["value", list(i => `"{{ a${i} }}"`, 45)], 422],
    ["long templates", "transform", ["value", list(() => `"{{ [0${",a".repeat(9000)}] }}"`, 18_100)], 422],
    ["templates", "transform", ["value", list(i => `"{{ input.a${i} }}"`, 49)], [200, 201]],
    ["more of them", "transform", ["value", list(i => `"{{ input.a${i} }}"`, 10)], 413],
    [
      "templates with space around them",
      "call_external_service",
      ["expected_status", list(() => '" {{ 1 }}"', 45)],
      422,
    ],
  ] as const
).map(([what, handler, [key, value], status]) => ({
  what: `config: ${what}`,
  path: "/workflows",
  body: `{"name": "config", "nodes": [{"id": "a", "handler": "${handler}", "config": {"url": "http://x.y/", "model": "m", "provider": "openai", "${key}": ${value}}}]}`.replace(
    handler === "transform"
      ? '"url": "http://x.y/", "model": "m", "provider": "openai", '
      : handler === "llm_service"
        ? ""
        : '"model": "m", "provider": "openai", ',
    "",
  ),
  status,
}))

const dependencies: readonly Attack[] = (
  [
    ["that are none", list(() => "1", 1)],
    ["on nodes that are not there", list(i => `"n${i}"`, 2)],
  ] as const
).map(([what, value]) => ({
  what: `dependencies ${what}`,
  path: "/workflows/validate",
  body: `{"name": "x", "nodes": [{"id": "a", "handler": "input", "dependencies": ${value}}]}`,
  status: 422,
}))

const submissions: readonly Attack[] = (
  [
    ["30 patterns that backtrack", "/jobs/bulk", bulk("pattern", { a: `${"a".repeat(40)}!` }, 30), 200],
    ["1,000 of them", "/jobs/bulk", bulk("pattern", { a: `${"a".repeat(40)}!` }, 1000), 200],
    ["19 lists of unique items", "/jobs/bulk", bulk("unique", { a: strings(5000) }, 19), 200],
    ["60 of them, more than a body may have", "/jobs/bulk", bulk("unique", { a: strings(5000) }, 60), 413],
    [
      "one list of 50,000",
      "/jobs",
      JSON.stringify({ workflow: "unique", input: { a: strings(50_000) } }),
      [201, 503],
    ],
    ["30 URLs that backtrack", "/jobs/bulk", bulk("url", { a: `http://${"a".repeat(60)}!` }, 30), 200],
    [
      "1,000 lists of URIs",
      "/jobs/bulk",
      bulk("uri", { a: Array(20).fill(`http://a/${"b".repeat(100)}`) }, 1000),
      200,
    ],
    ["1,000 that are plain", "/jobs/bulk", bulk("plain", { a: "x" }, 1000), 200],
    ["1,000 that do not fit", "/jobs/bulk", bulk("plain", { a: 1 }, 1000), 200],
    [
      "a thousand alternatives",
      "/jobs",
      JSON.stringify({ workflow: "wide", input: { a: Array(5000).fill(1) } }),
      [422, 503],
    ],
    ["the same 1,000 times", "/jobs/bulk", bulk("wide", { a: Array(100).fill(1) }, 1000), 200],
    [
      "references that double",
      "/jobs",
      JSON.stringify({ workflow: "doubling", input: nested(6) }),
      [422, 503],
    ],
    ["the same 200 times", "/jobs/bulk", bulk("doubling", nested(6), 200), 200],
    ...["keys", "mappings", "text", "copies"].map(
      name => [`20 of ${name}`, "/jobs/bulk", bulk(name, {}, 20), 200] as const,
    ),
  ] as const
).map(([what, path, body, status]) => ({ what, path, body, status }))

const documents: readonly Attack[] = [
  ...[
    repeated("[[[[]]]],", "x: ["),
    repeated("a,", "x: ["),
    repeated("a: b\n"),
    repeated(",", "x: ["),
    repeated("! "),
    repeated("- - -\n"),
  ].map((body, i) => ({
    what: `YAML ${i}`,
    path: "/workflows/validate",
    type: "application/yaml",
    body,
    status: 422,
  })),
  {
    what: "YAML that is long",
    path: "/workflows/validate",
    type: "application/yaml",
    body: repeated("a: b\n").repeat(20),
    status: 413,
  },
  {
    what: "20,000 nodes",
    path: "/workflows/validate",
    body: JSON.stringify({
      name: "many",
      nodes: Array.from({ length: 20_000 }, (_, i) => ({
        id: `n${i}`,
        handler: "transform",
        config: { value: i },
      })),
    }),
    status: 200,
  },
  {
    what: "20,000 problems",
    path: "/workflows/validate",
    body: JSON.stringify({
      name: "wrong",
      nodes: Array.from({ length: 20_000 }, (_, i) => ({ id: `n${i}`, handler: "nothing" })),
    }),
    status: 422,
  },
  {
    what: "a problem deep in a long list",
    path: "/workflows/validate",
    body: `${"[".repeat(150)}${"1,".repeat(190_000)}1${"]".repeat(150)}`,
    status: 422,
  },
]

export const heavy: readonly Attack[] = [
  ...submissions,
  ...documents,
  ...configs,
  ...dependencies,
  ...structures,
  ...others,
]
