/** Runs in Chromium: browser.test.ts serves it. */
import { connect } from "/dist/client/index.js"

const hello = {
  name: "hello",
  nodes: [{ id: "greet", handler: "transform", config: { value: "Hello {{ input.name }}" } }],
  output: "{{ greet }}",
}

export default async function run(origin) {
  const umbra = connect({ url: origin })
  const job = await umbra.submit(hello, { name: "Ada" })
  const { output } = await job.wait()
  let listed = 0
  for await (const one of umbra.jobs({ statuses: ["COMPLETED"] })) if (one.job_id === job.id) listed++
  const refused = await umbra.job("0198c0de-7a11-7012-9abc-0123456789ab").catch(error => error.code)
  const streamed = []
  for await (const { type } of connect({ url: `${origin}/scripted` }).stream("j")) {
    streamed.push(type)
    if (type === "snapshot") await fetch(`${origin}/scripted/cut`)
  }
  return { output, listed, refused, workflow: (await umbra.workflows.get("hello")).name, streamed }
}
