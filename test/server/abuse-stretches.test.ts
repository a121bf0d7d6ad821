/** S3: whatever is sent, no piece of our code holds the event loop for more than 50 ms of processor time. */
import { expect, it } from "vitest"
import { type Attack, bodies } from "./abuse/bodies.ts"
import { heavy, hostileWorkflows } from "./abuse/heavy.ts"
import { serveProbed } from "./abuse/probed.ts"

it("S3 no attack holds up the event loop, and every probe of /health is answered", async () => {
  const server = await serveProbed("PostgreSQL")
  const { send, post } = server
  for (const workflow of [...hostileWorkflows, { name: "own", nodes: [{ id: "a", handler: "input" }] }])
    await post("/workflows", workflow)
  // What runs for the first time is compiled meanwhile, and a thread is started.
  const document = `name: x\nnodes:\n${Array.from({ length: 80 }, (_, i) => `  - { id: n${i}, handler: input }\n`).join("")}`
  const yaml = { path: "/workflows/validate", type: "application/yaml", body: document }
  for (let n = 0; n < 10; n++) {
    for (const { name } of hostileWorkflows)
      await send({ path: "/jobs", body: JSON.stringify({ workflow: name, input: {} }) })
    expect((await send(yaml)).status).toBe(200)
    await post("/jobs/bulk", { jobs: Array(100).fill({ workflow: "plain", input: { a: "x" } }) })
  }

  server.probe()
  /** A workflow has a name of its own per try: the same one is not stored again. */
  const make = async (attack: Attack, tries: number) => {
    const path = attack.path.replace("JOB", "none")
    const body =
      path === "/workflows" && typeof attack.body === "string" && tries > 0
        ? attack.body.replace(/^\{"name": ?"(\w+)"/, `{"name":"$1-${tries}"`)
        : attack.body
    // The body of 5 MB is refused while it is being sent.
    const { status } = await send({ ...attack, path, body }).catch(() => ({ status: 0 }))
    if (heavy.includes(attack)) expect([attack.status].flat(), attack.what).toContain(status)
  }
  for (const attack of [...heavy, ...bodies])
    await server.mustNotHoldUp(attack.what, tries => make(attack, tries))
  await server.end()
}, 900_000)
