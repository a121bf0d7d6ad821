import { expect, it, onTestFinished, vi } from "vitest"
import { openUmbra } from "../../src/umbra.ts"
import { adapter } from "./scene.ts"

it("X3 the stack of an adapter that throws is in the process log, without secrets", async () => {
  vi.stubEnv("UMBRA_SECRET_SHOP_TOKEN", "tok-4711-very-secret")
  onTestFinished(() => void vi.unstubAllEnvs())
  const lines: string[] = []
  const write = (fields: unknown, text?: unknown) => void lines.push(JSON.stringify([text, fields]))
  const log = { debug: write, info: write, warn: write, error: write, child: () => log }
  const leaks = adapter("leaks", (_, { config }) => {
    throw new Error(`refused: ${(config as { token: string }).token}`)
  })
  const umbra = await openUmbra("memory:", { adapters: [leaks], log })
  onTestFinished(() => umbra.close())
  const job = await umbra.submit(
    {
      name: "leaking",
      init: { queue: "only", body: {} },
      routes: [
        {
          name: "only",
          inbound: "only",
          adapters: [{ type: "leaks", config: { token: "{{ secrets.SHOP_TOKEN }}" } }],
          error_handling: { retries: 0 },
        },
      ],
    } as never,
    {},
  )
  await job.wait()
  const thrown = lines.filter(line => line.includes("the adapter threw"))
  expect(thrown.length).toBeGreaterThan(0)
  expect(thrown[0]).toContain("thrown.test.ts")
  expect(lines.join("\n")).not.toContain("tok-4711")
})
