import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "vitest"
import { fold } from "../../src/core/apply/apply.ts"
import { readNodeStatus } from "../../src/core/state.ts"
import { expandJobFacts } from "../../src/core/view/events.ts"
import { follow } from "./event-story.ts"
import { graphOf } from "./graphs.ts"
import { readJournals, recordJournals } from "./journals.ts"
import { scenarios } from "./scenarios.ts"
import { summaryOf } from "./summary.ts"

const journals = readJournals(fileURLToPath(new URL("fixtures/journals/", import.meta.url)))

describe("journals recorded by each release fold to the same graph for ever", () => {
  it.each(journals)("J18 $name", ({ journal: { graph, facts, now, summary } }) => {
    expect(summaryOf(fold(graphOf(graph), facts), now)).toMatchObject(summary)
  })

  it.each(journals)("J18 $name can be read as legal events", ({ journal }) => {
    const graph = graphOf(journal.graph)
    const state = fold(graph, journal.facts)
    const facts = journal.facts.map((fact, index) => ({ seq: index + 1, fact }))
    const story = follow(
      [...expandJobFacts("job", graph, facts)],
      graph.nodes.map(({ id }) => id),
    )
    expect(story.job).toBe(state.status)
    expect([...story.nodes.values()]).toEqual(graph.nodes.map((_, node) => readNodeStatus(state, node)))
  })

  it("hold every kind of fact", () => {
    const types = new Set(journals.flatMap(({ journal }) => journal.facts.map(({ type }) => type)))
    expect(types.size).toBe(24)
  })
})

describe("recording journals", () => {
  const folder = mkdtempSync(join(tmpdir(), "umbra-journals-"))
  afterAll(() => rmSync(folder, { recursive: true }))

  it("writes what is missing and never a file that is there", () => {
    expect(recordJournals(folder, "9.9")).toHaveLength(Object.keys(scenarios).length)
    const kept = join(folder, "9.9", "chain-completed.json")
    writeFileSync(kept, "as it was")
    expect(recordJournals(folder, "9.9")).toEqual([])
    expect(readFileSync(kept, "utf8")).toBe("as it was")
  })
})
