/** A fleet over Redis: workers of other processes on the page Capacity, and one that was killed on the page Now. */
import { randomUUID } from "node:crypto"
import { expect, it, onTestFinished } from "vitest"
import { handlersModule } from "../cli/handlers-for-runs.ts"
import { folderWith, startUmbra } from "../cli/umbra.ts"
import { until } from "../engine/stage.ts"
import { openUiStage, type UiStage } from "./ui-stage.ts"

const redisUrl = process.env.UMBRA_TEST_REDIS_URL!
const prefix = `test-${randomUUID().slice(0, 8)}`

function startWorker() {
  const folder = folderWith({ "handlers.mjs": handlersModule })
  const worker = startUmbra(
    [
      ...["worker", "--redis-url", redisUrl, "--handlers", "handlers.mjs"],
      ...["--set", "worker_beat_seconds=0.1", "--set", "worker_dead_seconds=5"],
    ],
    { cwd: folder.path, env: { UMBRA_REDIS_PREFIX: prefix } },
  )
  onTestFinished(async () => {
    worker.kill("SIGKILL")
    await worker.ended
    folder.remove()
  })
  return worker
}

const liveWorkers = (stage: UiStage) => stage.umbra.workers().filter(({ state }) => state === "live")

it("shows the workers of a fleet, and names one that was killed until it is removed", async () => {
  const stage = await openUiStage({
    umbra: {
      roles: ["api", "engine"],
      redisUrl,
      redis: { prefix, workerBeatSeconds: 0.1, workerDeadSeconds: 5, rosterSeconds: 0.05 },
    },
  })
  onTestFinished(() => stage.close())
  const [first, second] = [startWorker(), startWorker()]
  await until("both workers are known", async () => liveWorkers(stage).length === 2)
  const { page, close, problems } = await stage.open("/ui/capacity")
  onTestFinished(close)
  await page.waitForSelector('tr[data-worker][data-state="live"] >> nth=1')
  const shown = await page.locator("tr[data-worker]").allTextContents()
  for (const { pid } of [first, second]) expect(shown.some(text => text.includes(String(pid)))).toBe(true)

  await page.goto(`${stage.url}/ui/now`)
  await page.waitForSelector('[data-state="healthy"]:has-text("2 of 2 live")')
  first.kill("SIGKILL")
  await first.ended
  await until("its death is noticed", async () => liveWorkers(stage).length === 1)
  const gone = stage.umbra.workers().find(({ state }) => state === "dead")!
  await page.keyboard.press("r")
  const row = page.locator(`[data-group="worker ${gone.id}"]`)
  await row.waitFor()
  expect(await row.textContent()).toMatch(
    new RegExp(
      `Worker on .*, process ${first.pid}, is dead.*${gone.id}.*Its last heartbeat was at .* ago; other workers run its attempts`,
    ),
  )
  expect(await page.locator("[data-group]").count()).toBe(1)
  await row.locator("text=Open").click()
  await page.waitForSelector(`tr[data-worker="${gone.id}"][data-state="dead"]`)
  expect(problems).toEqual([])
})
