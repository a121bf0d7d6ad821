// The pipeline, told line by line: `makeFilm(line => …)`. Answers the job and what the studio has in its own log.
import { createServer } from "node:http"
import { defineHandler, httpProvider, openUmbra, withLiveItems } from "umbra"
import { startStudio } from "./studio.js"
import { film } from "./workflow.js"

const secrets = { FAKE_PROVIDER_SECRET: "only-for-this-example" }

const writeScript = defineHandler({
  name: "write_script",
  run: ({ about }) => ({
    title: `The ${about}`,
    scenes: ["harbour", "storm", "chase", "kiss"].map((name, n) => ({
      name,
      prompt: `Scene ${n + 1} of a film about a ${about}: the ${name}`,
      seconds: 10 + 5 * n,
    })),
  }),
})

const stitch = defineHandler({
  name: "stitch",
  run: ({ title, clips }) => ({
    title,
    clips: clips.map(({ clip }) => clip),
    seconds: clips.reduce((sum, { seconds }) => sum + seconds, 0),
  }),
})

/** `location`: where the job is stored. */
export async function makeFilm(say, location = "memory:") {
  const studio = await startStudio(secrets.FAKE_PROVIDER_SECRET)
  const provider = httpProvider(
    { ...studio.definition("studio"), concurrency: 2, rate: 100, poll_seconds: [0.4] },
    { allowPrivateAddresses: true },
  )
  const umbra = await openUmbra(location, {
    handlers: [writeScript, stitch],
    providers: [provider],
    providerSecrets: name => secrets[name],
  })
  const door = await openDoor(umbra)
  studio.webhookUrl = door.url
  const job = await umbra.submit(film, { about: "lighthouse" })
  await tell(umbra, job, say)
  const { status, output } = await job.wait()
  const webhooks = await umbra.webhookEvents("studio")
  const [{ slots }] = await umbra.providers()
  await umbra.close()
  await door.close()
  await studio.close()
  return { status, output, studio, webhooks, slots }
}

/** `umbra serve` has this door: POST /webhooks/{provider}. */
async function openDoor(umbra) {
  const door = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    const answer = await umbra.webhooks.receive("studio", { body, headers: request.headers }).then(
      () => 202,
      error => error.status,
    )
    response.writeHead(answer).end()
  })
  await new Promise(resolve => door.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${door.address().port}/webhooks/studio`,
    close: () => new Promise(resolve => door.close(resolve)),
  }
}

async function tell(umbra, job, say) {
  for await (const { type, node, item, payload, source } of job.watch()) {
    const scene = `  scene ${(item ?? payload.item) + 1}`
    if (type === "node.completed") say(`${node} is done`)
    if (type === "slot.awaited") say(`${scene} waits for a slot of the studio`)
    if (type === "job.preview")
      say(`${scene} shows ${payload.data.frame}${await progress(umbra, job, payload.item)}`)
    if (type === "item.queued" && payload.reason === "retry") say(`${scene} again: ${payload.fault.message}`)
    if (type === "item.completed") say(`${scene} is done, says the ${source}`)
  }
}

/** Progress is not stored: it is asked for while it matters. */
async function progress(umbra, job, item) {
  const { items } = withLiveItems(await umbra.items(job.id, "scenes", { after: item - 1, limit: 1 }))
  return items[0].progress === null ? "" : ` (${items[0].progress.percent} %)`
}
