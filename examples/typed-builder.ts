// A workflow in TypeScript: a field that does not exist, or has the wrong type, does not compile.
// Run it: npx tsx examples/typed-builder.ts
import { defineHandler, expr, openUmbra, orElse, text, workflow } from "umbra"
import { z } from "zod"

const lookUp = defineHandler({
  name: "look_up",
  config: z.object({ city: z.string() }),
  output: z.object({ degrees: z.number(), wind: z.number().optional() }),
  run: ({ city }) => ({ degrees: city.length * 3 }),
})

const warn = defineHandler({
  name: "warn",
  config: z.object({ message: z.string() }),
  output: z.object({ sent: z.string() }),
  run: ({ message }) => ({ sent: message }),
})

const weather = workflow("weather", { input: z.object({ city: z.string() }) }, flow => {
  const now = flow.node("now", lookUp, { city: flow.input.city })
  const warning = flow.node(
    "warning",
    warn,
    { message: text`${flow.input.city} has ${now.output.degrees} degrees` },
    { when: expr<boolean>`${now.output.degrees} > ${15}` },
  )
  return {
    degrees: now.output.degrees,
    wind: orElse(now.output.wind, 0),
    warning: orElse(warning.output.sent, "none"),
  }
})

const umbra = await openUmbra("memory:", { handlers: [lookUp, warn] })
for (const city of ["Rome", "Reykjavik"]) {
  const { output } = await (await umbra.submit(weather, { city })).wait()
  const degrees: number = output.degrees
  console.log(`${city}: ${degrees} degrees, wind ${output.wind}, warning: ${output.warning}`)
}
await umbra.close()
