import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import type { Json } from "../../src/core/json.ts"
import type { ConfigOf, OutputOf } from "../../src/definition/typed/flow.ts"
import { defineHandler, type Handler } from "../../src/worker/handler.ts"
import { waitUntil } from "../../src/worker/waiting.ts"

describe("types of handlers", () => {
  const resize = defineHandler({
    name: "resize",
    config: z.object({ url: z.string(), width: z.number().default(800) }),
    output: z.object({ path: z.string() }),
    run: ({ url, width }) => {
      expectTypeOf(width).toEqualTypeOf<number>()
      return { path: `${url}@${width}` }
    },
  })

  it("a workflow gives the config before defaults and reads the output of the schema", () => {
    expectTypeOf<ConfigOf<typeof resize>>().toEqualTypeOf<{ url: string; width?: number | undefined }>()
    expectTypeOf<OutputOf<typeof resize>>().toEqualTypeOf<{ path: string }>()
    expect(resize.name).toBe("resize")
  })

  it("handlers of any config are handlers, with or without schemas", () => {
    const plain = defineHandler({ name: "plain", run: config => expectTypeOf(config).toEqualTypeOf<Json>() })
    const all: Handler[] = [resize, plain]
    expect(all.map(({ name }) => name)).toEqual(["resize", "plain"])
  })

  it("what run returns must fit the output schema, or be a wait", () => {
    defineHandler({ name: "waits", output: z.number(), run: async () => waitUntil(0, 1) })
    // @ts-expect-error a text is no number
    const wrong = () => defineHandler({ name: "wrong", output: z.number(), run: () => "text" })
    expect(wrong).toBeTypeOf("function")
  })
})
