// script → scenes at a provider, side by side → one film. The same could be YAML files.

/** Each scene is a job of its own: one operation at the studio, with its slot, webhook, polls and previews. */
export const scene = {
  name: "scene",
  nodes: [
    {
      id: "clip",
      handler: "external",
      provider: "studio",
      config: { scene: "{{ input.scene }}", prompt: "{{ input.prompt }}", seconds: "{{ input.seconds }}" },
      retry: { max_attempts: 3, initial_seconds: 0.2 },
    },
  ],
  output: "{{ clip }}",
}

export const film = {
  name: "film",
  nodes: [
    // `llm_service` in its place asks a model (docs/handlers.md).
    { id: "script", handler: "write_script", config: { about: "{{ input.about }}" } },
    {
      id: "scenes",
      handler: "workflow",
      for_each: "{{ script.scenes }}",
      config: { workflow: "scene", input: "{{ item }}" },
    },
    { id: "stitch", handler: "stitch", config: { title: "{{ script.title }}", clips: "{{ scenes }}" } },
  ],
  output: "{{ stitch }}",
}
