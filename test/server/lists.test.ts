/** S2: filters and pages of `GET /jobs`, in the client and in the CLI. */
import { describe, expect, it, onTestFinished } from "vitest"
import { connect } from "../../src/client/index.ts"
import { fingerprint } from "../../src/journal/fingerprint.ts"
import { defineHandler } from "../../src/worker/handler.ts"
import { openStage } from "./stage.ts"

const failing = defineHandler({
  name: "failing",
  run: config => {
    throw new Error((config as { readonly message: string }).message)
  },
})
const order = (message: string) => ({
  name: "order",
  nodes: [{ id: "pay", handler: "failing", config: { message }, retry: { max_attempts: 1 } }],
})

describe("GET /jobs", () => {
  it("S2 finds jobs by version, error and duration, and says how far it has searched", async () => {
    const stage = await openStage({ umbra: { handlers: [failing] } })
    onTestFinished(() => stage.close())
    const run = async (message: string, labels = {}) => {
      const job = await stage.umbra.submit(order(message), {}, { labels })
      return (await job.wait()).job_id
    }
    const first = await run('Payment 17 of "Ada" was rejected', { team: "shop" })
    const second = await run('Payment 18 of "Bob" was rejected')
    const third = await run("Bank is closed")
    const find = async (query: string) => {
      const { status, body } = await stage.ask(`/jobs?${query}`)
      expect(status, JSON.stringify(body)).toBe(200)
      return body.jobs.map((job: { job_id: string }) => job.job_id)
    }
    const { body: job } = await stage.ask(`/jobs/${first}`)
    expect(job.fingerprint).toBe(fingerprint({ ...job.error, message: 'Payment 99 of "Eve" was rejected' }))
    expect(await find(`fingerprint=${job.fingerprint}`)).toEqual([second, first])
    expect(await find(`fingerprint=${job.fingerprint}&status=failed&label=team%3Dshop`)).toEqual([first])
    expect(await find("workflow=order&version=2")).toEqual([second])
    expect(await find("workflow=order&version=2&status=completed")).toEqual([])
    expect(await find("error_text=REJECTED+payment")).toEqual([second, first])
    expect(await find("error_text=bank&status=failed")).toEqual([third])
    expect(await find(`error_code=${job.error.code}`)).toEqual([third, second, first])
    expect(await find(`error_code=${job.error.code.toLowerCase()}`)).toEqual([third, second, first])
    expect(await find("error_code=E999")).toEqual([])
    expect(await find("workflow=order%402")).toEqual([second])
    expect(await find("workflow=order%402&version=2")).toEqual([second])
    const client = connect({ url: stage.server.url })
    for (const [workflow, version] of [["order@stable"], ["order@latest"], ["order@2", 3]] as const) {
      const query = new URLSearchParams({ workflow, ...(version && { version: String(version) }) })
      const { status, body } = await stage.ask(`/jobs?${query}`)
      expect({ status, code: body.code, detail: body.detail }).toEqual({
        status: 422,
        code: "E309",
        detail: expect.stringMatching(version ? /give one of them/ : /Give a version, such as order@3/),
      })
      const refused = expect.objectContaining({ code: "E309", message: expect.stringContaining("workflow") })
      await expect(client.jobPage({ workflow, version })).rejects.toEqual(refused)
      await expect(stage.umbra.jobs({ workflow, version })).rejects.toEqual(refused)
    }
    expect(await find("min_duration=3600")).toEqual([])
    expect(await find("min_duration=0")).toEqual([third, second, first])

    const { body: page } = await stage.ask("/jobs?limit=2")
    expect(page).toMatchObject({ next: second, complete: true })
    expect(Date.parse(page.scanned_to)).toBeGreaterThan(0)
    expect((await stage.ask(`/jobs?limit=2&after=${second}`)).body).toMatchObject({
      jobs: [{ job_id: first }],
      next: null,
      scanned_to: null,
      complete: true,
    })
    for (const wrong of [
      "version=2",
      "workflow=order&version=x",
      "error_text=17",
      "min_duration=-1",
      "error_code=",
    ])
      expect((await stage.ask(`/jobs?${wrong}`)).status, wrong).toBe(400)

    const filter = {
      workflow: "order",
      version: 2,
      errorText: "rejected",
      errorCode: job.error.code,
      minDurationMs: 0,
    }
    expect(await client.jobPage({ ...filter, fingerprint: job.fingerprint })).toMatchObject({
      jobs: [{ job_id: second, fingerprint: job.fingerprint }],
      next: null,
      complete: true,
    })
    expect(await stage.umbra.jobPage(filter)).toMatchObject({ jobs: [{ job_id: second }], next: null })
    expect((await stage.umbra.jobs({ errorText: "closed" })).map(({ job_id }) => job_id)).toEqual([third])
    await expect(stage.umbra.jobs({ version: 2 })).rejects.toMatchObject({ code: "E309" })
    await expect(stage.umbra.jobs({ errorText: "17" })).rejects.toMatchObject({ code: "E309" })
  })
})
