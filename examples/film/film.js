// The pipeline, told line by line: `makeFilm(line => …)`. Answers the job and what the studio has in its own log.
import { createServer } from "node:http"
import { defineHandler, httpProvider, openUmbra } from "umbra"
import { startStudio } from "./studio.js"
import { film, scene } from "./workflow.js"

const secrets = { FAKE_PROVIDER_SECRET: "only-for-this-example" }

const writeScript = defineHandler({
  name: "write_script",
  run: ({ about }) => ({
    title: `The ${about}`,
    scenes: ["harbour", "storm", "chase", "kiss"].map((name, n) => ({
      scene: name,
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

export async function makeFilm(say) {
  const studio = await startStudio(secrets.FAKE_PROVIDER_SECRET)
  const provider = httpProvider(
    { ...studio.definition("studio"), concurrency: 2, rate: 100, poll_seconds: [0.5] },
    { allowPrivateAddresses: true },
  )
  const umbra = await openUmbra("memory:", {
    handlers: [writeScript, stitch],
    providers: [provider],
    secrets: name => secrets[name],
  })
  const door = await openDoor(umbra)
  studio.webhookUrl = door.url
  await umbra.register(scene)
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
  const watching = []
  for await (const { type, node, item, payload } of job.watch()) {
    if (type === "node.completed") say(`${node} is done`)
    if (type === "item.waiting") watching.push(tellScene(umbra, payload.waiting.job_id, say, item))
  }
  await Promise.all(watching)
}

/** Progress is not stored: it is asked for while it matters. */
async function progress(umbra, jobId) {
  const [clip] = (await umbra.graph(jobId)).nodes
  return clip.progress === null ? "" : `(${clip.progress.percent} %)`
}

async function tellScene(umbra, jobId, say, number) {
  const name = `scene ${number + 1}`
  for await (const { type, payload, source } of umbra.watch(jobId)) {
    if (type === "slot.awaited") say(`  ${name} waits for a slot of the studio`)
    if (type === "job.preview") say(`  ${name} shows ${payload.data.frame} ${await progress(umbra, jobId)}`)
    if (type === "node.queued" && payload.reason === "retry") say(`  ${name} again: ${payload.fault.message}`)
    if (type === "node.completed") say(`  ${name} is done, says the ${source}`)
  }
}
