/** How long `GET /health` takes during each attack of the abuse suite: p99 at most 50 ms, longest 150 ms. */
import { heavy, hostileWorkflows } from "../test/server/abuse/heavy.ts"
import { startServe } from "./server.ts"
import { databaseUrl } from "./services.ts"

export async function attacks(): Promise<void> {
  const { url: database, drop } = await databaseUrl()
  const { child, port } = await startServe(["--database-url", database])
  const url = `http://127.0.0.1:${port}`
  const post = (path: string, body: string | Uint8Array, type = "application/json") =>
    fetch(`${url}${path}`, { method: "POST", body: body as string, headers: { "content-type": type } })
  for (const workflow of hostileWorkflows) await post("/workflows", JSON.stringify(workflow))
  const all: number[] = []
  console.log(`${"attack".padEnd(34)}  status    took  probes     p99  longest`)
  // The first round starts threads and warms up.
  for (const isMeasured of [false, true])
    for (const { what, path, body, type } of heavy) {
      const times: number[] = []
      let isOver = false
      const probing = (async () => {
        while (!isOver) {
          const begun = performance.now()
          await (await fetch(`${url}/health`)).text()
          times.push(performance.now() - begun)
        }
      })()
      const begun = performance.now()
      const answer = await post(path, body, type)
      await answer.text()
      const took = performance.now() - begun
      isOver = true
      await probing
      if (!isMeasured) continue
      all.push(...times)
      const figures = [took, times.length, quantile(times, 0.99), Math.max(...times)]
      const columns = figures.map(figure => figure.toFixed(0).padStart(7)).join(" ")
      console.log(`${what.padEnd(34)}  ${String(answer.status).padEnd(6)} ${columns}`)
    }
  console.log(`all: p99 ${quantile(all, 0.99).toFixed(0)} ms, longest ${Math.max(...all).toFixed(0)} ms`)
  child.kill("SIGTERM")
  await new Promise(resolve => child.once("exit", resolve))
  await drop()
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}
