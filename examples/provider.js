// Work that is done elsewhere: three scenes at a provider with two slots, webhooks and polls, a preview, one result.
// The provider is the fake one of umbra/testing, on 127.0.0.1. Run it: node examples/provider.js
import { createServer } from "node:http"
import { httpProvider, openUmbra } from "umbra"
import { startFakeProvider } from "umbra/testing"

const secrets = { FAKE_PROVIDER_SECRET: "only-for-this-example" }

// It renders each scene in a moment. The webhook of the second one is lost: a poll finds that scene.
const studio = await startFakeProvider({
  secret: secrets.FAKE_PROVIDER_SECRET,
  limit: 2,
  script: ({ request }) => ({
    steps: [
      { do: "wait", ms: 100 },
      { do: "complete", output: { clip: `${request.scene}.mp4` } },
      ...(request.scene === "chase" ? [] : [{ do: "webhook" }]),
    ],
  }),
})

// `umbra serve --providers studio.yaml` takes the same definition as YAML (docs/reference/providers.md).
const provider = httpProvider(
  { ...studio.definition("studio"), concurrency: 2, poll_seconds: [0.3] },
  { allowPrivateAddresses: true },
)
const umbra = await openUmbra("memory:", { providers: [provider], providerSecrets: name => secrets[name] })

// `umbra serve` has this door: POST /webhooks/{provider}.
const door = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray())
  const answer = await umbra.webhooks.receive("studio", { body, headers: request.headers }).then(
    () => 202,
    error => error.status,
  )
  response.writeHead(answer).end()
})
await new Promise(resolve => door.listen(0, "127.0.0.1", resolve))
studio.webhookUrl = `http://127.0.0.1:${door.address().port}/webhooks/studio`

const scene = id => ({ id, handler: "external", provider: "studio", config: { scene: id } })
const film = {
  name: "film",
  nodes: [scene("opening"), scene("chase"), scene("kiss")],
  output: ["{{ opening.clip }}", "{{ chase.clip }}", "{{ kiss.clip }}"],
}

const job = await umbra.submit(film)
for await (const { type, node, source } of job.watch())
  if (type === "slot.awaited") console.log(`${node} waits for a slot`)
  else if (type === "node.waiting") console.log(`${node} is at the provider`)
  else if (type === "node.completed") console.log(`${node} is done, says the ${source}`)

console.log((await job.wait()).output.join(" + "))
const polled = [...studio.operations.values()]
  .filter(({ polls }) => polls > 0)
  .map(({ request }) => request.scene)
console.log(`at most ${studio.mostAtOnce} at once; found by a poll: ${polled.join(", ")}`)
door.close()
await umbra.close()
await studio.close()
