/** Workflows that the tests of their pages use. */

export const hostile = `<img src=x onerror="window.hacked=1"> javascript:alert(1)`

const input = {
  type: "object",
  required: ["brief", "seconds", "voice"],
  properties: {
    brief: { type: "string", description: "What the trailer is about", minLength: 3 },
    seconds: { type: "integer", maximum: 180, default: 60 },
    aspect: { enum: ["16:9", "9:16", "1:1"], default: "16:9" },
    review: { type: "boolean", default: true, description: hostile },
    locales: { type: "array", items: { type: "string", minLength: 2, maxLength: 5 }, minItems: 1 },
    voice: {
      type: "object",
      required: ["name"],
      properties: {
        name: { type: "string", maxLength: 40 },
        speed: { type: "number", default: 1, exclusiveMinimum: 0 },
        pauses: {
          type: "array",
          items: { type: "object", required: ["at"], properties: { at: { type: "number" }, why: {} } },
        },
      },
    },
    music: { type: "object", properties: { style: { type: "string" } } },
  },
}

export const film = (prompt: string, more: object[] = []) => ({
  name: "film",
  description: hostile,
  input,
  nodes: [
    { id: "script", handler: "transform", config: { value: prompt } },
    { id: "scenes", handler: "transform", config: { value: "{{ script }}" } },
    ...more,
    { id: "cut", handler: "transform", dependencies: ["scenes"], config: { value: "{{ input }}" } },
  ],
})

export const rolled = (bad: boolean) => ({
  name: "rolled",
  nodes: [{ id: "only", handler: "pick", retry: { max_attempts: 1 }, config: { value: 1, bad } }],
})
