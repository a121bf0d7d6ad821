import { describe, expect, it } from "vitest"
import { validateWorkflow } from "../../../src/definition/index.ts"
import { catalogs, places, problemsOf } from "./catalog.ts"

/** One route on line 3; what follows begins on line 4. */
const one = (rest = "") => `name: x
routes:
  - { name: a, inbound: q, adapters: [{ type: echo }] }
${rest}`

const field = (line: string) => `name: x
routes:
  - name: a
    inbound: q
    adapters: [{ type: echo }]
    ${line}
`

const adapter = (written: string, rest = "") => `name: x
${rest}routes:
  - name: a
    inbound: q
    adapters:
      - ${written}
`

const messages = (text: string) => problemsOf(text).map(({ message }) => message)

describe("P1 every problem of a pipeline has its code, path, line and column", () => {
  it.each<[string, string, string[]]>([
    ["an unknown key", one("routs: 1\n"), ["E101 4:1 routs"]],
    ["an unknown key of a route", field("inbond: q"), ["E101 6:5 routes[0].inbond"]],
    [
      "an unknown key inside error_handling",
      field("error_handling: { backoff: { max: 3 } }"),
      ["E101 6:34 routes[0].error_handling.backoff.max"],
    ],
    [
      "an unknown key of a circuit breaker",
      field("error_handling: { circuit_breaker: { min_call: 3 } }"),
      ["E101 6:42 routes[0].error_handling.circuit_breaker.min_call"],
    ],
    [
      "a max_dead_letters that is neither a number nor a share",
      one("max_dead_letters: 1.5\n"),
      ["E101 4:19 max_dead_letters"],
    ],
    ["a max_dead_letters in percent", one('max_dead_letters: "5%"\n'), ["E101 4:19 max_dead_letters"]],
    [
      "a config that does not fit",
      adapter("{ type: http_fetch }"),
      ["E102 6:9 routes[0].adapters[0].config.url"],
    ],
    [
      "a value of a config that does not fit",
      adapter('{ type: http_fetch, config: { url: "{{ message }}", timeout: x } }'),
      ["E102 6:70 routes[0].adapters[0].config.timeout"],
    ],
    ["an unknown adapter", adapter("{ type: ecco }"), ["E103 6:17 routes[0].adapters[0].type"]],
    [
      "two routes with one name",
      one("  - { name: a, inbound: r, adapters: [{ type: echo }] }\ninit: [{}, { queue: r }]\n"),
      ["E104 4:13 routes[1].name"],
    ],
    [
      "a queue that two routes read",
      one("  - { name: b, inbound: q, adapters: [{ type: echo }] }\n"),
      ["E104 4:25 routes[1].inbound"],
    ],
    ["a cycle", field("outbound: { link: q }"), ["E107 6:23 routes[0].outbound.link"]],
    [
      "a cycle of two",
      `name: x
routes:
  - { name: a, inbound: q, adapters: [{ type: echo }], outbound: r }
  - { name: b, inbound: r, adapters: [{ type: echo }], outbound: q }
`,
      ["E107 3:66 routes[0].outbound"],
    ],
    ["max_hops without a cycle", one("max_hops: 3\n"), ["E101 4:1 max_hops"]],
    ["no routes", "name: x\nroutes: []\n", ["E108 2:9 routes"]],
    [
      "a queue that nobody writes to",
      one("  - { name: b, inbound: r, adapters: [{ type: echo }] }\n"),
      ["E109 4:25 routes[1].inbound"],
    ],
    [
      "the first queue, where init names another",
      one("  - { name: b, inbound: r, adapters: [{ type: echo }] }\ninit: { queue: r }\n"),
      ["E109 3:25 routes[0].inbound"],
    ],
    [
      "a template that does not parse",
      adapter('{ type: echo, config: { a: "{{ 1 + }}" } }'),
      ["E110 6:44 routes[0].adapters[0].config.a"],
    ],
    [
      "an unknown name",
      adapter('{ type: echo, config: { a: "{{ nodes.x }}" } }'),
      ["E111 6:40 routes[0].adapters[0].config.a"],
    ],
    [
      "an unknown field of the job",
      adapter('{ type: echo, config: { a: "{{ job.nam }}" } }'),
      ["E111 6:40 routes[0].adapters[0].config.a"],
    ],
    ["a message in an initial one", one('init: { body: "{{ message }}" }\n'), ["E111 4:19 init.body"]],
    [
      "a secret in an initial message",
      one('init: [{ body: "{{ secrets.K }}" }]\n'),
      ["E112 4:20 init[0].body"],
    ],
    [
      "a secret where an adapter stores it",
      adapter('{ type: transform, config: { a: "{{ secrets.K }}" } }'),
      ["E112 6:45 routes[0].adapters[0].config.a"],
    ],
    ["a queue that nobody reads", field("outbound: r"), ["E113 6:15 routes[0].outbound"]],
    [
      "an initial message that nobody reads",
      one("init: { queue: r }\n"),
      ["E109 3:25 routes[0].inbound", "E113 4:16 init.queue"],
    ],
    ["nodes and routes", one("nodes: []\n"), ["E101 2:1 routes"]],
    ["an output", one("output: 1\n"), ["E101 4:1 output"]],
    [
      "no adapters",
      "name: x\nroutes:\n  - { name: a, inbound: q, adapters: [] }\n",
      ["E101 3:38 routes[0].adapters"],
    ],
    ["an empty init", one("init: []\n"), ["E101 4:7 init"]],
  ])("%s", (_, text, expected) => {
    expect(places(text)).toEqual(expected)
  })

  it("in JSON as well", () => {
    const text = JSON.stringify(
      { name: "x", routes: [{ name: "a", inbound: "q", adapters: [{ type: "ecco" }], outbound: "r" }] },
      null,
      2,
    )
    expect(places(text)).toEqual(["E103 9:19 routes[0].adapters[0].type", "E113 12:19 routes[0].outbound"])
  })
})

describe("messages say what to do", () => {
  it.each<[string, string[]]>([
    [field("concurrency: 0"), ['"concurrency" is 0; expected at least 1.']],
    [field("concurrency: many"), ['"concurrency" is "many"; expected a number.']],
    [field("rate: 0"), ['"rate" is 0; expected more than 0.']],
    [field("run_on: worker"), ['"run_on" is "worker"; expected "engine" or "workers".']],
    [
      field("outbound: 3"),
      ['"outbound" is 3; expected the name of a queue, or a mapping from kinds to queues.'],
    ],
    [field("outbound: { default: 3 }"), ['"default" is 3; expected text.']],
    [
      field('outbound: { "a b": q }\nmax_hops: 1'),
      [
        'The key "a b" is not allowed here; expected letters, digits, _ and -, not beginning with a digit or -.',
      ],
    ],
    [
      field("error_handling: { circuit_breaker: true }"),
      ['"circuit_breaker" is true; expected a mapping, or false.'],
    ],
    [
      field("error_handling: { circuit_breaker: { failure_rate: 2 } }"),
      ['"failure_rate" is 2; expected at most 1.'],
    ],
    [field("error_handling: { dead_letter: yes }"), ['"dead_letter" is "yes"; expected true or false.']],
    [
      field("backpressure: { adaptive: false, tolerance: 3 }"),
      ['"tolerance" has no effect if "adaptive" is false. Remove it.'],
    ],
    [
      field("backpressure: { min_concurrency: 9 }"),
      [
        '"min_concurrency" is 9, more than the route\'s "concurrency", whose default is 8. Lower it, or raise "concurrency".',
      ],
    ],
    [field("backpressure: { min_concurrency: 9 }\n    concurrency: 9"), []],
    [adapter("echo"), ['An adapter must be a mapping with "type" and "config"; this is "echo".']],
    [adapter("{ config: {} }"), ['The adapter has no "type". Add it: text.']],
    [adapter("{ typ: echo }"), ['Unknown key "typ". Did you mean "type"?']],
    [adapter("{ type: ehco }"), ['There is no adapter of type "ehco". Did you mean "echo"?']],
    [
      adapter("{ type: pdftext }"),
      ['There is no adapter of type "pdftext". Did you mean "pdf_text" of package umbra-pdf?'],
    ],
    [
      adapter("{ type: nothing_like_it }"),
      ['There is no adapter of type "nothing_like_it". Available: echo, http_fetch, transform, pdf_text.'],
    ],
    [
      adapter("{ type: pdf_text, config: { pages: x } }"),
      [
        'The config does not fit adapter "pdf_text" of package umbra-pdf: Invalid input: expected number, received string.',
      ],
    ],
    [
      adapter('{ type: echo, config: { a: "{{ mesage.b }}" } }'),
      ['Unknown name "mesage". Did you mean "message"?'],
    ],
    [
      adapter('{ type: echo, config: { a: "{{ fetched }}" } }'),
      ['Unknown name "fetched". Available are message, input, job and secrets.'],
    ],
    [one('init: { body: "{{ item }}" }\n'), ['Unknown name "item". Available are input and job.']],
    [
      one('init: { body: "{{ secrets.K }}" }\n'),
      [
        "A secret is not allowed here: messages are stored. Use it in the config of the adapter that needs it.",
      ],
    ],
    [one("init: 3\n"), ['"init" is 3; expected a message ({ queue, body }) or a list of them.']],
    [one("init: [3]\n"), ['An initial message must be a mapping with "queue" and "body"; this is 3.']],
    [one("nodes: [{ id: a, handler: echo }]\n"), [expect.stringContaining("not both")]],
    ["name: x\nroutes: 3\n", ['"routes" is 3; expected a list of routes.']],
    [
      "name: x\nroutes: [3]\n",
      ['A route must be a mapping with "name", "inbound" and "adapters"; this is 3.'],
    ],
    [
      "name: x\nroutes: [{}]\n",
      [
        'The route has no "name". Add it: text.',
        'The route has no "inbound". Add it: text.',
        'The route has no "adapters". Add it: a list of adapters.',
      ],
    ],
    [
      "routes:\n  - { name: 9a, inbound: q, adapters: [{ type: echo }] }\n",
      [
        'The pipeline has no "name". Add it: text.',
        '"name" is "9a"; expected letters, digits, _ and -, not beginning with a digit or -.',
      ],
    ],
  ])("%s", (text, expected) => {
    expect(messages(text)).toEqual(expected)
  })

  it("names the cycle", () => {
    const ring = (of: string[]) =>
      of.map(
        (name, i) =>
          `  - { name: ${name}, inbound: q${i}, adapters: [{ type: echo }], outbound: q${(i + 1) % of.length} }\n`,
      )
    const text = `name: x\nroutes:\n${ring(["fetch", "extract", "links"]).join("")}`
    expect(messages(text)).toEqual([
      'Routes write to each other in a cycle: fetch → extract → links → fetch. Add "max_hops" to the pipeline: the number of routes that a message may pass.',
    ])
    expect(messages(`${text}max_hops: 5\n`)).toEqual([])
  })

  it("says once that max_hops is missing, however many cycles there are", () => {
    const text = `name: x
routes:
  - { name: a, inbound: q, adapters: [{ type: echo }], outbound: { again: q, default: r } }
  - { name: b, inbound: r, adapters: [{ type: echo }], outbound: { again: r } }
`
    expect(messages(text)).toEqual([expect.stringContaining("a → a (and 1 more).")])
  })
})

describe("all causes at once, no consequences", () => {
  it("continues past a wrong field, a wrong adapter and a wrong route", () => {
    const text = `name: x
routes:
  - name: a
    inbound: q
    concurrency: x
    adapters:
      - { type: nope, config: { v: "{{ gone }}" } }
      - 7
      - { type: http_fetch, config: {} }
  - 8
  - { name: c, inbound: q, adapters: [{ type: echo }] }
`
    expect(places(text)).toEqual([
      "E101 5:18 routes[0].concurrency",
      "E103 7:17 routes[0].adapters[0].type",
      "E111 7:40 routes[0].adapters[0].config.v",
      "E101 8:9 routes[0].adapters[1]",
      "E102 9:37 routes[0].adapters[2].config.url",
      "E101 10:5 routes[1]",
      "E104 11:25 routes[2].inbound",
    ])
  })

  const two = (outbound: string, inbound: string, rest = "") => `name: x
routes:
  - { name: a, inbound: q, adapters: [{ type: echo }], ${outbound} }
  - { name: b, ${inbound}, adapters: [{ type: echo }] }
${rest}`

  it("leaves out that nothing is written to a queue whose name is misspelt", () => {
    expect(messages(two("outbound: chunk", "inbound: chunks"))).toEqual([
      'No route reads the queue "chunk". Did you mean "chunks"?',
    ])
  })

  it("leaves out what follows from a key that is misspelt", () => {
    expect(places(two("outbond: chunks", "inbound: chunks"))).toEqual(["E101 3:56 routes[0].outbond"])
    expect(places(two("outbound: chunks", "inbond: chunks"))).toEqual(["E101 4:16 routes[1].inbond"])
    expect(places(two("outbound: { default: 3 }", "inbound: chunks"))).toHaveLength(1)
    expect(places(`${field("outbound: q")}max_hop: 3\n`)).toEqual(["E101 7:1 max_hop"])
    expect(places(`${field("outbound: q")}max_hops: x\n`)).toEqual(["E101 7:11 max_hops"])
    expect(places(two("outbound: q", "inbound: r", "inti: [{}, { queue: r }]\nmax_hops: 1\n"))).toEqual([
      "E101 5:1 inti",
    ])
  })

  it("leaves out routes behind one that nothing comes to", () => {
    const text = `name: x
routes:
  - { name: entry, inbound: q, adapters: [{ type: echo }] }
  - { name: last, inbound: q3, adapters: [{ type: echo }] }
  - { name: middle, inbound: q2, adapters: [{ type: echo }], outbound: q3 }
  - { name: lost, inbound: q1, adapters: [{ type: echo }], outbound: q2 }
`
    expect(places(text)).toEqual(["E109 6:28 routes[3].inbound"])
  })

  it("finds routes that only write to each other", () => {
    const text = `name: x
max_hops: 2
routes:
  - { name: entry, inbound: q, adapters: [{ type: echo }] }
  - { name: behind, inbound: q3, adapters: [{ type: echo }] }
  - { name: ring1, inbound: q1, adapters: [{ type: echo }], outbound: { default: q2, x: q3 } }
  - { name: ring2, inbound: q2, adapters: [{ type: echo }], outbound: q1 }
`
    expect(messages(text)).toEqual([
      'No message ever reaches route "ring1": only routes after it write to its queue "q1". Add an initial message ("init"), or write to the queue from another route.',
    ])
  })

  it("leaves out what follows from a value that could not be read", () => {
    expect(places(two("outbound: !!binary aGk=", "inbound: r"))).toHaveLength(1)
    expect(places(field("outbound: {{ q }}"))).toHaveLength(1)
  })
})

describe("limits", () => {
  const pipeline = (routes: number, adapters: number, name = "a") => ({
    name: "x",
    routes: Array.from({ length: routes }, (_, i) => ({
      name: `${name}${i}`,
      inbound: `q${i}`,
      adapters: Array.from({ length: adapters }, () => ({ type: "echo" })),
      ...(i + 1 < routes ? { outbound: `q${i + 1}` } : {}),
    })),
  })
  const check = (source: object) => validateWorkflow(source, catalogs).map(({ message }) => message)

  it("of routes, adapters, initial messages and names", () => {
    expect(check(pipeline(1000, 1))).toEqual([])
    expect(check(pipeline(1001, 1))).toEqual([expect.stringContaining("(limit routes)")])
    expect(check(pipeline(1, 100))).toEqual([])
    expect(check(pipeline(1, 101))).toEqual([expect.stringContaining("(limit adapters)")])
    const init = (length: number) => Array.from({ length }, (_, i) => ({ body: i }))
    expect(check({ ...pipeline(1, 1), init: init(10_000) })).toEqual([])
    expect(check({ ...pipeline(1, 1), init: init(10_001) })).toEqual([
      expect.stringContaining("(limit initMessages)"),
    ])
    expect(check(pipeline(1, 1, "a".repeat(127)))).toEqual([])
    expect(check(pipeline(1, 1, "a".repeat(128)))).toEqual([expect.stringContaining("(limit idLength)")])
  })

  it("can be reported", () => {
    const limits = { routes: 2, adapters: 2 }
    const codes = (source: object) =>
      validateWorkflow(source, { ...catalogs, limits }).map(({ code }) => code)
    expect(codes(pipeline(2, 2))).toEqual([])
    expect(codes(pipeline(3, 1))).toEqual(["E101"])
    expect(codes(pipeline(1, 3))).toEqual(["E101"])
  })
})

it("without a catalog no adapter is known", () => {
  const source = { name: "x", routes: [{ name: "a", inbound: "q", adapters: [{ type: "echo" }] }] }
  expect(validateWorkflow(source, { handlers: catalogs.handlers }).map(({ code }) => code)).toEqual(["E103"])
})
