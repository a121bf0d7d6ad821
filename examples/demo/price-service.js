// A web service that is down for the first two calls.
import { createServer } from "node:http"

export async function startPriceService() {
  let calls = 0
  const server = createServer((_request, response) => {
    calls++
    response.writeHead(calls < 3 ? 503 : 200, { "content-type": "application/json" })
    response.end(
      JSON.stringify(calls < 3 ? { error: "down for maintenance" } : { amount: 42, currency: "EUR" }),
    )
  })
  await new Promise(resolve => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}/price`,
    get calls() {
      return calls
    },
    close: () => new Promise(resolve => server.close(resolve)),
  }
}
