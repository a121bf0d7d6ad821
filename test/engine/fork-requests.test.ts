import { describe, expect, it } from "vitest"
import { deleteAlias, moveAlias } from "../../src/jobs/aliases.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { chain, counting } from "./fork-stage.ts"
import { flow, open } from "./stage.ts"

describe("requests for forks", () => {
  it("refuses what does not fit, and says what to do", async () => {
    const { work } = counting()
    const charge = defineHandler({ name: "charge", effects: true, run: () => "charged" })
    const plain = defineHandler({ name: "plain", run: () => 1 })
    const umbra = await open({ handlers: [work, charge, plain] })
    const nodes = flow([
      { id: "a", handler: "work" },
      { id: "pay", handler: "charge", dependencies: ["a"] },
      { id: "other", handler: "plain", dependencies: ["a"] },
      { id: "each", handler: "work", for_each: "{{ [1, 2] }}" },
    ])
    const origin = await umbra.submit(nodes, { x: 1 })
    await origin.wait()
    const wrong = async (request: unknown, text: RegExp, code = "E309") => {
      const message = new RegExp(text.source, "is")
      const refused = umbra.fork(origin.id, request as never)
      await expect(refused).rejects.toMatchObject({ code, message: expect.stringMatching(message) })
    }
    await wrong({ from: ["A"] }, /has no node "A" \(given in "from"\)\. Did you mean "a"/)
    await wrong({ from: "a" }, /from must be a list of node ids/)
    await wrong({ reuse: [1] }, /reuse must be a list of node ids/)
    await wrong({ overrides: { a: {} } }, /overrides\.a must have either output or config/)
    await wrong(
      { overrides: { a: { output: 1, config: {} } } },
      /overrides\.a must have either output or config/,
    )
    await wrong({ overrides: { a: { config: 3 } } }, /overrides\.a\.config must be an object/)
    await wrong({ overrides: { a: { output: () => 1 } } }, /overrides\.a\.output must be JSON/)
    await wrong({ overrides: { no: { output: 1 } } }, /has no node "no" \(given in "overrides"\)/)
    await wrong({ overrides: { no: { config: {} } } }, /has no node "no" \(given in "overrides"\)/)
    await wrong({ items: { each: [] } }, /items\.each must be a list/)
    await wrong({ items: { each: [2] } }, /"each" has 2 items, no item 2/)
    await wrong({ items: { a: [0] } }, /"a" of the origin has no list/)
    await wrong({ items: { each: [0] }, from: ["each"] }, /items of node "each" cannot be chosen/i)
    await wrong({ reuse: ["pay"], from: ["a"] }, /"pay" cannot be taken over.*depends on/)
    await wrong({ from: ["a"], overrides: { a: { output: 1 } } }, /cannot run again.*and have its output set/)
    await wrong({ confirm: { unsafe: ["nobody"] } }, /has no node "nobody" \(given in "confirm\.unsafe"\)/)
    await wrong({ confirm: true }, /confirm must be an object/)
    await wrong({ confirm: { unknown: "yes" } }, /confirm\.unknown must be true or false/)
    await wrong({ form: ["a"] }, /no parameter "form"/)
    await wrong(
      { workflow: { ...nodes, name: "else" } },
      /runs the same workflow as its origin, "flow", not "else"/,
    )
    await wrong({ workflow: "flow@9" }, /no workflow "flow@9"/, "E305")
    await wrong({ workflow: { ...nodes, nodes: [{ id: "a", handler: "nothing" }] } }, /nothing/, "E103")
    await wrong(
      { from: ["a"] },
      /name pay in confirm\.unsafe.*set confirm\.unknown, if other may run/,
      "E314",
    )
    await wrong({ from: ["a"], confirm: { unknown: true } }, /name pay in confirm\.unsafe/, "E314")
    await wrong({ from: ["a"], confirm: { unsafe: ["pay"] } }, /set confirm\.unknown/, "E314")
    const fork = await umbra.fork(origin.id, { from: ["a"], confirm: { unsafe: ["pay"], unknown: true } })
    await fork.wait()
    await expect(umbra.fork(origin.id, {}, { owner: "else" })).rejects.toMatchObject({ code: "E301" })
    await umbra.delete(origin.id)
    await expect(umbra.fork(origin.id)).rejects.toMatchObject({ code: "E301" })
    expect(await umbra.node(fork.id, "each")).toMatchObject({ output: ["each", "each"] })
  })

  it("needs no confirmation for a fork of a job that ended before anything of it began", async () => {
    const charge = defineHandler({ name: "charge", effects: true, run: () => "charged" })
    const umbra = await open({ handlers: [charge] })
    const pay = flow([{ id: "pay", handler: "charge" }])
    await umbra.register(pay as never)
    const delayed = await umbra.submit("flow", {}, { delaySeconds: 3600 })
    // It is yet to run.
    await expect(umbra.fork(delayed.id)).rejects.toMatchObject({ code: "E314" })
    await delayed.cancel()
    await umbra.pauseWorkflow("flow")
    const paused = await umbra.submit("flow", {})
    await paused.cancel()
    await umbra.resumeWorkflow("flow")
    for (const { id } of [delayed, paused]) {
      const preview = await umbra.previewFork(id)
      expect(preview).toMatchObject({ effects: { unsafe: ["pay"] }, unconfirmed: { unsafe: [] } })
      const fork = await umbra.fork(id)
      expect((await fork.wait()).status).toBe("COMPLETED")
      await expect(umbra.fork(fork.id, { from: ["pay"] })).rejects.toMatchObject({ code: "E314" })
    }
    await delayed.retry()
    await delayed.wait()
    await expect(umbra.fork(delayed.id, { from: ["pay"] })).rejects.toMatchObject({ code: "E314" })
  })

  it("says for every node what happens to it, and why", async () => {
    const { work, failing } = counting()
    const charge = defineHandler({ name: "charge", effects: true, run: () => "charged" })
    const umbra = await open({ handlers: [work, charge] })
    const before = flow([
      { id: "same", handler: "work" },
      { id: "other", handler: "work", config: { value: 1 } },
      { id: "below", handler: "charge", dependencies: ["other"] },
      { id: "fails", handler: "work", dependencies: ["same", "below", "gone"] },
      {
        id: "get",
        handler: "call_external_service",
        config: { url: "http://127.0.0.1:9/" },
        dependencies: ["fails"],
      },
      {
        id: "post",
        handler: "call_external_service",
        config: { url: "http://127.0.0.1:9/", method: "POST" },
        dependencies: ["fails"],
      },
      { id: "gone", handler: "work" },
    ])
    failing.add("fails")
    const origin = await umbra.submit(before)
    await origin.wait()
    const after = {
      ...before,
      nodes: [
        ...before.nodes
          .slice(0, -1)
          .map(node => (node.id === "other" ? { ...node, config: { value: 2 } } : node))
          .map(node => (node.id === "fails" ? { ...node, dependencies: ["same", "below"] } : node)),
        { id: "added", handler: "work" },
      ],
    }
    const preview = await umbra.previewFork(origin.id, {
      workflow: after,
      overrides: { same: { output: 0 } },
    })
    expect(preview).toMatchObject({
      job_id: origin.id,
      workflow_version: null,
      reused: [],
      pinned: [{ node: "same", reason: { code: "pinned" } }],
      will_run: [
        {
          node: "other",
          reason: { code: "changed", fields: ["config"] },
          effects: "safe",
          duration_ms: null,
        },
        { node: "below", reason: { code: "dependency", nodes: ["other"] }, effects: "unsafe" },
        { node: "fails", reason: { code: "not_completed" } },
        { node: "get", effects: "safe" },
        { node: "post", effects: "unsafe" },
      ],
      new: [{ node: "added", reason: { code: "new" } }],
      removed: ["gone"],
      expected: { duration_ms: null, usage: null, critical_path: ["other", "below", "fails", "get"] },
      unconfirmed: { unsafe: ["below", "post"], unknown: [] },
    })
    expect(preview.expected.without_data).toHaveLength(6)
  })

  it("gives the same job for the same key, and refuses the key for another request", async () => {
    const { work } = counting()
    const umbra = await open({ handlers: [work] })
    const origin = await umbra.submit(chain, { a: "x" })
    await origin.wait()
    const key = { idempotencyKey: "k" }
    const [one, two] = await Promise.all([
      umbra.acceptFork(origin.id, { from: ["b"] }, key),
      umbra.acceptFork(origin.id, { from: ["b"] }, key),
    ])
    expect(one.jobId).toBe(two.jobId)
    expect([one.isNew, two.isNew].sort()).toEqual([false, true])
    await expect(umbra.fork(origin.id, { from: ["c"] }, key)).rejects.toMatchObject({ code: "E306" })
  })

  it("answers a repetition with the fork that exists, also if the plan would be refused now", async () => {
    const { work } = counting()
    const umbra = await open({ handlers: [work] })
    await umbra.register(chain)
    await umbra.register({ ...chain, description: "second" } as never)
    const alias = { owner: "local", name: "flow", alias: "prod", by: "test" }
    await moveAlias(umbra.registry, { ...alias, targets: [{ version: 2, weight: 1 }] })
    const origin = await umbra.submit("flow@1", { a: 1 })
    await origin.wait()
    const once = () => umbra.fork(origin.id, { workflow: "flow@prod" }, { idempotencyKey: "once" })
    const made = await once()
    await deleteAlias(umbra.registry, alias)
    await expect(umbra.fork(origin.id, { workflow: "flow@prod" })).rejects.toMatchObject({ code: "E305" })
    expect((await once()).id).toBe(made.id)
    await made.wait()
    await umbra.delete(origin.id)
    expect((await once()).id).toBe(made.id)
    const other = umbra.fork(origin.id, { from: ["a"] }, { idempotencyKey: "once" })
    await expect(other).rejects.toMatchObject({ code: "E306" })
  })

  it("wait while the workflow is paused, unless they have nothing to run", async () => {
    const { work, take } = counting()
    const umbra = await open({ handlers: [work] })
    const plain = flow(
      [
        { id: "a", handler: "work" },
        { id: "each", handler: "work", for_each: "{{ [1, 2] }}", dependencies: ["a"] },
      ],
      { name: "forked" },
    )
    const origin = await umbra.submit(plain)
    await origin.wait()
    take()
    await umbra.pauseWorkflow("forked", { reason: "prices" })
    const forks = [
      await umbra.fork(origin.id, { from: ["each"] }),
      await umbra.fork(origin.id, { items: { each: [1] } }),
    ]
    for (const fork of forks)
      expect((await fork.status()).paused).toMatchObject({ reason: "workflow paused: prices" })
    expect((await umbra.fork(origin.id).then(whole => whole.wait())).status).toBe("COMPLETED")
    expect(take()).toEqual([])
    await umbra.resumeWorkflow("forked")
    for (const fork of forks) {
      expect(await fork.wait()).toMatchObject({ status: "COMPLETED", paused: null })
      expect(await umbra.queries.verify(await umbra.queries.row(fork.id))).toEqual([])
    }
    expect(take()).toEqual(["each", "each", "each"])
  })
})
