/** Pages with commands do what they say: guides, and pages for newcomers and operators. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, it, onTestFinished } from "vitest"
import { freshDatabase, redisUrl } from "../support/services.ts"
import { runPage } from "./run-page.ts"

/** A service that answers with JSON, the first `refused` requests with 429. */
async function serve(answer: (body: string) => string, { refused = 0 } = {}): Promise<string> {
  let requests = 0
  const server = createServer(async (request, response) => {
    let body = ""
    for await (const part of request.setEncoding("utf8")) body += part
    response.setHeader("content-type", "application/json")
    if (requests++ < refused) response.writeHead(429, { "retry-after": "0" }).end("{}")
    else response.end(answer(body))
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** OpenAI's protocol: one good review, all others bad. */
function completion(body: string): string {
  const content = JSON.stringify({ stars: body.includes("Great") ? 5 : 1 })
  const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }
  return JSON.stringify({ model: "m", choices: [{ message: { content }, finish_reason: "stop" }], usage })
}

describe("docs/guides", () => {
  it("llm-rate-limit.md", async () => {
    await runPage("docs/guides/llm-rate-limit.md", {
      replace: { "https://api.openai.com/v1": await serve(completion, { refused: 1 }) },
      env: { OPENAI_API_KEY: "key-of-a-test", UMBRA_ALLOW_PRIVATE_ADDRESSES: "127.0.0.1" },
    })
  })

  const plain = ["wait-for-a-person", "run-a-job-later", "idempotent-handlers", "test-a-workflow"]
  it.each([...plain, "from-bullmq", "from-temporal", "from-celery"])("%s.md", name =>
    runPage(`docs/guides/${name}.md`),
  )

  it("from-airflow.md", async () => {
    const sales = JSON.stringify([{ amount: "1" }, { amount: "2" }, { amount: "3" }])
    await runPage("docs/guides/from-airflow.md", {
      replace: { "https://shop.example.com/sales": await serve(() => sales) },
      env: { UMBRA_ALLOW_PRIVATE_ADDRESSES: "127.0.0.1" },
    })
  })

  it.each(["deploy", "upgrade"])("%s.md", async name => {
    const database = await freshDatabase()
    onTestFinished(database.drop)
    const replace = {
      "postgres://umbra@db.example.com/umbra": database.url,
      "redis://redis.example.com:6379": redisUrl(),
    }
    await runPage(`docs/guides/${name}.md`, { replace, env: { UMBRA_REDIS_PREFIX: database.name } })
  })
})

describe("docs/operations", () => {
  it.each(["backup", "troubleshooting"])("%s.md", name => runPage(`docs/operations/${name}.md`))
})

describe("docs/start and docs/concepts", () => {
  const start = ["first-workflow", "first-pipeline", "first-provider"].map(name => `start/${name}`)
  const concepts = ["shadow-graph", "attempts", "slots", "past"].map(name => `concepts/${name}`)
  it.each([...start, ...concepts])("%s.md", name => runPage(`docs/${name}.md`))
})
