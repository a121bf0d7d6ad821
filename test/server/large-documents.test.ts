/** A large workflow or a large job keeps its caller waiting, and nobody else. */
import { Agent, get } from "node:http"
import { setTimeout as delay } from "node:timers/promises"
import { describe, expect, it, onTestFinished } from "vitest"
import { openStage } from "./stage.ts"

const chain = (nodes: number, from: number) => ({
  name: "large",
  nodes: Array.from({ length: nodes }, (_, i) => ({
    id: `n${i}`,
    handler: "transform",
    config: { value: i === 0 ? from : { before: `{{ n${i - 1} }}`, i: i + from } },
  })),
})

/** How often another is answered while the work is under way. In one piece it would be never. */
async function answeredDuring<T>(url: string, work: Promise<T>): Promise<{ count: number; answer: T }> {
  const agent = new Agent({ keepAlive: true })
  onTestFinished(() => agent.destroy())
  let count = 0
  let isOver = false
  const asked = async () => {
    while (!isOver) {
      await new Promise<void>((resolve, reject) => {
        const request = get(`${url}/health`, { agent }, response => response.resume().on("end", resolve))
        request.on("error", reject)
      })
      count++
      // The server is in this process: without a pause, most of what it computes would be these answers.
      await delay(2)
    }
  }
  const asking = asked()
  const answer = await work
  isOver = true
  const during = count
  await asking
  return { count: during, answer }
}

describe("during work on large documents other requests are answered", () => {
  it("S2 a workflow that is stored, checked and compared", async () => {
    const { ask, server } = await openStage().then(stage => {
      onTestFinished(() => stage.close())
      return stage
    })
    const during = <T>(work: Promise<T>) => answeredDuring(server.url, work)
    const post = (path: string, body: object) => ask(path, { method: "POST", body })
    await answeredDuring(server.url, ask("/health"))
    for (const [path, from] of [
      ["/workflows/validate", 1],
      ["/workflows", 1],
      ["/workflows", 2],
    ] as const) {
      const { count, answer } = await during(post(path, chain(20_000, from)))
      expect(answer.body, path).toMatchObject({ name: "large" })
      expect(count, path).toBeGreaterThan(2)
    }
    const { count, answer } = await during(ask("/workflows/large/diff?from=1&to=2"))
    expect(answer.body.nodes_changed).toHaveLength(20_000)
    expect(count).toBeGreaterThan(1)
  })

  it("S3 beyond a bound of them the answer is 503, and the others continue", async () => {
    const stage = await openStage({ settings: { maxLargeDocuments: 2 } })
    onTestFinished(() => stage.close())
    const body = chain(15_000, 1)
    const post = () => stage.ask("/workflows/validate", { method: "POST", body })
    const answers = await Promise.all([post(), post(), post(), post()])
    const refused = answers.filter(({ status }) => status === 503)
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(2)
    expect(refused.length).toBeGreaterThanOrEqual(1)
    for (const { body, headers } of refused)
      expect([body.code, headers.get("retry-after")]).toEqual(["E611", "1"])
    expect((await post()).status).toBe(200)
  })

  it("J21 a job with a long list, whose graph and events are requested", async () => {
    const { ask, server } = await openStage().then(stage => {
      onTestFinished(() => stage.close())
      return stage
    })
    const each = { id: "e", handler: "transform", for_each: "{{ input }}", config: { value: "{{ item }}" } }
    await ask("/workflows", { method: "POST", body: { name: "each", nodes: [each] } })
    const input = Array.from({ length: 20_000 }, (_, i) => i)
    const { body: job } = await ask("/jobs?wait=60", { method: "POST", body: { workflow: "each", input } })
    expect(job.status).toBe("COMPLETED")
    /** All pages of it. */
    const all = async (path: string, after = ""): ReturnType<typeof ask> => {
      const page = await ask(`/jobs/${job.job_id}/${path}${after}`)
      const separator = path.includes("?") ? "&" : "?"
      return page.body.next == null ? page : all(path, `${separator}after=${page.body.next}`)
    }
    // Each page of items folds the whole job: the largest pages, 20 instead of 400.
    for (const path of ["graph", "events", "nodes/e/items?limit=1000"]) {
      const { count, answer } = await answeredDuring(server.url, all(path))
      expect(answer.status, path).toBe(200)
      expect(count, path).toBeGreaterThan(1)
    }
  })
})
