import { expect, it } from "vitest"
import { flow, handler, open } from "./stage.ts"

/** The paths of fields with the value undefined, which a printed object shows. */
function unset(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return []
  return Object.entries(value).flatMap(([key, member]) =>
    member === undefined ? [`${path}.${key}`] : unset(member, `${path}.${key}`),
  )
}

it("no printed job, graph, node, item, reason or event has a field without a value", async () => {
  const page = handler("page", ({ page }: { page: string }) => {
    if (page === "broken") throw Object.assign(new Error("broken"), { retryable: false })
    return page
  })
  const umbra = await open({ handlers: [page] })
  const nodes = [
    {
      id: "pages",
      handler: "page",
      config: { page: "{{ item }}" },
      for_each: "{{ input }}",
      fail_fast: false,
    },
    { id: "answer", handler: "wait_for_signal", config: { signal: "answer" }, dependencies: ["pages"] },
  ]
  const found = async (id: string) => [
    await umbra.job(id),
    await umbra.graph(id),
    await umbra.why(id),
    await umbra.events(id),
    await umbra.items(id, "pages"),
    await umbra.node(id, "pages", { item: 1 }),
    await umbra.node(id, "pages"),
    await umbra.node(id, "answer"),
  ]
  const waiting = await umbra.submit(flow(nodes), ["home", "about"])
  await expect.poll(async () => (await umbra.node(waiting.id, "answer")).waiting_on?.kind).toBe("signal")
  expect(unset(await found(waiting.id))).toEqual([])
  const failed = await umbra.submit(flow(nodes), ["home", "broken"])
  expect((await failed.wait()).error).toMatchObject({ node: "pages", item: 1 })
  expect(unset(await found(failed.id))).toEqual([])
})
