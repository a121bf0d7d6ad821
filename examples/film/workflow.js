// script → scenes at a provider, side by side → one film. The same could be a YAML file.
export const film = {
  name: "film",
  nodes: [
    // `llm_service` in its place asks a model (docs/reference/handlers.md).
    { id: "script", handler: "write_script", config: { about: "{{ input.about }}" } },
    // Each scene is an operation of its own: its slot, its key, its webhook and polls, its previews.
    {
      id: "scenes",
      handler: "external",
      provider: "studio",
      for_each: "{{ script.scenes }}",
      config: { scene: "{{ item.name }}", prompt: "{{ item.prompt }}", seconds: "{{ item.seconds }}" },
      retry: { max_attempts: 3, initial_seconds: 0.2 },
    },
    { id: "stitch", handler: "stitch", config: { title: "{{ script.title }}", clips: "{{ scenes }}" } },
  ],
  output: "{{ stitch }}",
}
