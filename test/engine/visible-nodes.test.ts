import { describe, expect, it } from "vitest"
import { flow, gate, handler, open } from "./stage.ts"

const echo = handler("echo", config => config)
/** What a template made of a secret is redacted in outputs; its length is not. */
const measure = handler("measure", (config: { keys: string }) => config.keys.length)
const large = handler("large", (config: { n: number }) => "x".repeat(config.n))

/** Every way in which a template can read nodes without naming one. */
const lookups = {
  keys: "{{ nodes.keys() }}",
  loop: "{% for id, output in nodes.items() %}{{ id }}={{ output }};{% endfor %}",
  count: "{{ nodes | length }}",
  contains: "{{ 'other' in nodes }}",
  one: "{{ nodes[input.other] | default('not visible') }}",
  dependency: "{{ nodes[input.parent] }}",
  whole: "{{ nodes }}",
}
const seen = {
  keys: ["parent"],
  loop: "parent=through;",
  count: 1,
  contains: false,
  one: "not visible",
  dependency: "through",
  whole: { parent: "through" },
}

describe("a node's templates see its dependencies and no other node", () => {
  /** `look` depends on `parent` alone; `other` has ended before `look` is rendered, or has not. */
  async function run(otherFirst: boolean, look: object) {
    const parent = gate("parent")
    const other = gate("other")
    const secrets = () => "the secret"
    const umbra = await open({ handlers: [parent.handler, other.handler, echo, measure], secrets })
    const definition = flow(
      [
        { id: "parent", handler: "parent" },
        { id: "other", handler: "other" },
        { id: "look", handler: "echo", dependencies: ["parent"], ...look },
      ],
      { output: { look: "{{ look }}", all: "{{ nodes.keys() | sort }}" } },
    )
    const job = await umbra.submit(definition, { other: "other", parent: "parent" })
    await parent.came()
    await other.came()
    const ended = async (id: string) =>
      expect.poll(async () => (await umbra.node(job.id, id)).status).toMatch(/COMPLETED|SKIPPED/)
    if (otherFirst) {
      other.open()
      await ended("other")
    }
    parent.open()
    await ended("look")
    other.open()
    const { output } = await job.wait()
    expect(output).toMatchObject({ all: ["look", "other", "parent"] })
    return (output as { look: unknown }).look
  }

  it.each([true, false])("in config; the other has ended before: %s", async otherFirst => {
    expect(await run(otherFirst, { config: lookups })).toEqual(seen)
  })

  it.each([true, false])(
    "in a template that reads a secret; the other has ended before: %s",
    async otherFirst => {
      const config = { keys: "{{ nodes.keys() | join(',') }}{{ secrets.KEY | length }}" }
      expect(await run(otherFirst, { handler: "measure", config })).toBe("parent10".length)
    },
  )

  it.each([true, false])("in when; the other has ended before: %s", async otherFirst => {
    const when = "{{ nodes[input.other] is defined }}"
    expect(await run(otherFirst, { when })).toEqual({ skipped: true })
  })

  it.each([true, false])(
    "in for_each, and in the config of its items; the other has ended before: %s",
    async otherFirst => {
      const look = {
        for_each: "{{ nodes.keys() }}",
        config: { item: "{{ item }}", keys: "{{ nodes.keys() }}" },
      }
      expect(await run(otherFirst, look)).toEqual([{ item: "parent", keys: ["parent"] }])
    },
  )

  it("says which nodes it can read if a computed one is not among them", async () => {
    const umbra = await open({ handlers: [echo] })
    const job = await umbra.submit(
      flow([
        { id: "other", handler: "echo" },
        { id: "parent", handler: "echo" },
        {
          id: "look",
          handler: "echo",
          dependencies: ["parent"],
          config: { one: "{{ nodes[input.which] }}" },
        },
      ]),
      { which: "other" },
    )
    const { error } = await job.wait()
    expect(error).toMatchObject({ code: "E201", node: "look" })
    expect(error!.message).toContain("nodes that can be read here are parent")
  })
})

it("the job's output reads any node by a computed name, also one too large to stay in memory", async () => {
  const last = gate("last")
  const umbra = await open({ handlers: [large, last.handler], engine: { largeOutputBytes: 100 } })
  for (const which of ["first", "small"]) {
    const job = await umbra.submit(
      flow(
        [
          { id: "first", handler: "large", config: { n: 1000 } },
          { id: "small", handler: "large", config: { n: 3 }, dependencies: ["first"] },
          { id: "end", handler: "last", dependencies: ["small"] },
        ],
        { output: "{{ nodes[input.which] | length }}" },
      ),
      { which },
    )
    await last.came()
    last.open()
    expect((await job.wait()).output).toBe(which === "first" ? 1000 : 3)
  }
})
