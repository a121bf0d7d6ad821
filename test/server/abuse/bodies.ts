/** Recorded: bodies that somebody may send to do harm. `status`: what must come of them. */
export interface Attack {
  readonly what: string
  readonly method?: string
  readonly path: string
  readonly type?: string
  readonly body: string | Uint8Array
  readonly status: number | readonly number[]
}

const json = "application/json"
const yaml = "application/yaml"
const nested = (open: string, close: string, depth: number) => open.repeat(depth) + close.repeat(depth)

/** Nine lists of nine of the one before. */
const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[..."bcdefghi"]
  .map((name, n) => `${name}: &${name} [${Array(9).fill(`*${"abcdefgh"[n]}`).join(",")}]`)
  .join("\n")}\nname: x\nnodes: [*i]\n`

const jobs: readonly Attack[] = [
  ["nothing", "", 400],
  ["no JSON", "{", 400],
  ["half a text", '{"workflow": "ow', 400],
  ["a number", "1", 400],
  ["a list", "[]", 400],
  ["null", "null", 400],
  ["NaN", '{"workflow": NaN}', 400],
  ["two documents", '{"workflow": "own"}{"workflow": "own"}', 400],
  ["a comment", '{"workflow": "own"} // hi', 400],
  ["a mark of byte order", '\ufeff{"workflow": "nothing"}', [400, 404]],
  ["lists in lists", `{"workflow": "own", "input": ${nested("[", "]", 90_000)}}`, 400],
  ["objects in objects", `{"workflow": "own", "input": ${nested('{"a":', "}", 5000)}1}`, 400],
  ["brackets that never close", "[".repeat(90_000), 400],
  ["more of them", "[".repeat(500_000), 413],
  ["a key given twice, the last counts", '{"workflow": "own", "workflow": "nothing"}', 404],
  ["__proto__", '{"__proto__": {"workflow": "own"}}', 400],
  ["__proto__ in the input", '{"workflow": "own", "input": {"__proto__": {"admin": true}}}', 400],
  ["constructor.prototype", '{"workflow": "own", "input": {"constructor": {"prototype": {"x": 1}}}}', 400],
  ["an unknown key", '{"workflow": "own", "owner": "target"}', 400],
  ["another owner", '{"workflow": "own", "owner": "target", "input": null}', 400],
  ["a name with NUL", '{"workflow": "own\\u0000"}', 400],
  ["half a character", '{"workflow": "\\ud800"}', [400, 404]],
  ["a label with NUL", '{"workflow": "own", "labels": {"a": "\\u0000"}}', 422],
  ["a label that is too long", `{"workflow": "own", "labels": {"a": "${"x".repeat(2000)}"}}`, 400],
  [
    "many labels",
    `{"workflow": "own", "labels": {${Array.from({ length: 2000 }, (_, n) => `"l${n}": "${"x".repeat(100)}"`).join(",")}}}`,
    422,
  ],
  ["a ttl of no time", '{"workflow": "own", "ttl_seconds": 0}', 400],
  ["a ttl beyond all time", '{"workflow": "own", "ttl_seconds": 1e308}', 400],
  ["a priority that is no number", '{"workflow": "own", "priority": "1; drop table jobs"}', 400],
  ["SQL", `{"workflow": "own'; drop schema umbra cascade; --"}`, 404],
  ["a template", '{"workflow": "{{ secrets.KEY }}"}', 404],
  ["a path", '{"workflow": "../../etc/passwd"}', 404],
  ["5 MB", `{"workflow": "own", "input": "${"x".repeat(5_000_000)}"}`, 413],
].map(
  ([what, body, status]) => ({ what: `job: ${what}`, method: "POST", path: "/jobs", body, status }) as Attack,
)

const types: readonly Attack[] = [
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "application/xml",
  "application/json2",
  "text/html",
  "application/yaml",
  "nonsense",
  "a".repeat(1000),
].map(type => ({
  what: `type ${type.slice(0, 40)}`,
  path: "/jobs",
  type,
  body: '{"workflow":"own"}',
  status: 415,
}))

const workflows: readonly Attack[] = [
  ["a bomb of aliases", yaml, bomb, 422],
  ["an alias of itself", yaml, "a: &a [*a]\nname: x\nnodes: *a\n", 422],
  ["an unknown alias", yaml, "name: *nothing\nnodes: []\n", 422],
  ["a tag that makes code", yaml, "name: !!js/function 'function(){}'\nnodes: []\n", 422],
  ["a tag of Python", yaml, "!!python/object/apply:os.system ['id']\n", 422],
  ["two documents", yaml, "name: a\nnodes: []\n---\nname: b\nnodes: []\n", 422],
  ["lists in lists", yaml, nested("[", "]", 4000), 422],
  ["lists in lists, long", yaml, nested("[", "]", 50_000), 413],
  ["indented without end", yaml, Array.from({ length: 120 }, (_, n) => `${" ".repeat(n)}a:`).join("\n"), 422],
  ["merge keys", yaml, "name: x\nnodes: []\n<<: {__proto__: {a: 1}}\n", 422],
  ["__proto__", yaml, "__proto__: {a: 1}\nname: x\nnodes: []\n", 422],
  ["a key given twice", yaml, "name: x\nname: y\nnodes: []\n", 422],
  ["tabs and bells", yaml, "name:\t\u0007\nnodes: [", 422],
  ["nothing", yaml, "", [400, 422]],
  ["JSON as YAML that is none", yaml, "{{{{", 422],
  ["JSON in JSON's place that is YAML", json, "name: x\nnodes: []\n", 422],
  ["lists in lists", json, nested("[", "]", 90_000), 422],
  ["a key given twice", json, '{"name": "x", "name": "y", "nodes": []}', 422],
  ["__proto__", json, '{"__proto__": {"name": "x"}, "name": "x", "nodes": []}', 422],
  [
    "a name that is a path",
    json,
    '{"name": "../x", "nodes": [{"id": "a", "handler": "input"}]}',
    [200, 201, 422],
  ],
  ["a name with NUL", json, '{"name": "x\\u0000", "nodes": [{"id": "a", "handler": "input"}]}', 422],
  [
    "a regular expression that never ends",
    json,
    '{"name": "r", "nodes": [{"id": "a", "handler": "input"}], "input": {"type": "string", "pattern": "^(a+)+$"}}',
    [201, 200, 422],
  ],
  [
    "a template that never ends",
    json,
    '{"name": "t", "nodes": [{"id": "a", "handler": "transform", "config": {"value": "{% for a in range(999999999) %}{% for b in range(999999999) %}x{% endfor %}{% endfor %}"}}]}',
    [201, 200, 422],
  ],
  [
    "a template that reaches for the prototype",
    json,
    '{"name": "p", "nodes": [{"id": "a", "handler": "transform", "config": {"value": "{{ input.constructor.constructor(\'return process\')() }}"}}]}',
    [201, 200, 422],
  ],
  ["a handler that is not there", json, '{"name": "h", "nodes": [{"id": "a", "handler": "__proto__"}]}', 422],
  [
    "a reference out of the document",
    json,
    '{"name": "s", "nodes": [{"id": "a", "handler": "input"}], "input": {"$ref": "file:///etc/passwd"}}',
    422,
  ],
  ["half a character", yaml, new Uint8Array([110, 97, 109, 101, 58, 32, 0xff, 0xfe, 10]), [400, 422]],
  ["an overlong NUL", json, new Uint8Array([0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d]), [400, 422]],
].flatMap(([what, type, body, status]) =>
  ["/workflows/validate", "/workflows"].map(
    path => ({ what: `workflow: ${what}`, path, type, body, status }) as Attack,
  ),
)

const others: readonly Attack[] = [
  {
    what: "alias to itself",
    method: "PUT",
    path: "/workflows/own/aliases/a",
    body: '{"version": "a"}',
    status: 400,
  },
  {
    what: "alias with a hostile weight",
    method: "PUT",
    path: "/workflows/own/aliases/a",
    body: '{"weights": {"1": 1e999}}',
    status: 400,
  },
  {
    what: "alias to __proto__",
    method: "PUT",
    path: "/workflows/own/aliases/a",
    body: '{"weights": {"__proto__": 1}}',
    status: 400,
  },
  {
    what: "alias named __proto__",
    method: "PUT",
    path: "/workflows/own/aliases/__proto__",
    body: '{"version": 1}',
    status: 200,
  },
  {
    what: "alias to both",
    method: "PUT",
    path: "/workflows/own/aliases/a",
    body: '{"version": 1, "weights": {"1": 1}}',
    status: 400,
  },
  {
    what: "a thousand and one jobs",
    path: "/jobs/bulk",
    body: JSON.stringify({ jobs: Array(1001).fill({ workflow: "own" }) }),
    status: 400,
  },
  { what: "no jobs", path: "/jobs/bulk", body: '{"jobs": []}', status: 400 },
  { what: "a job that is no object", path: "/jobs/bulk", body: '{"jobs": [null, 1, "x"]}', status: 400 },
  {
    what: "a reason that is an object",
    path: "/jobs/JOB/cancel",
    body: '{"reason": {"toString": 1}}',
    status: 400,
  },
  {
    what: "a reason without end",
    path: "/jobs/JOB/cancel",
    body: JSON.stringify({ reason: "x".repeat(100_000) }),
    status: 400,
  },
  { what: "a signal named NUL", path: "/jobs/JOB/signals/%00", body: "1", status: [400, 422] },
  { what: "a signal with __proto__", path: "/jobs/JOB/signals/x", body: '{"__proto__": 1}', status: 400 },
  { what: "a deep signal", path: "/jobs/JOB/signals/x", body: nested("[", "]", 150), status: 422 },
]

/** `JOB` stands for a job of the attacker's own. */
export const bodies: readonly Attack[] = [...jobs, ...types, ...workflows, ...others]
