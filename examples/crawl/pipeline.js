// crawl → extract → chunk → embed → store. The same could be a YAML file.
export const crawl = {
  name: "crawl",
  // Pages lead back to pages: a message goes round ten times at most.
  max_hops: 10,
  init: { queue: "pages", body: { url: "{{ input.url }}" } },
  routes: [
    {
      name: "fetch",
      inbound: "pages",
      adapters: [
        { type: "http_fetch", config: { url: "{{ message.url }}", response: "text", as: "page" } },
        { type: "extract", config: { url: "{{ message.url }}", html: "{{ message.page.body }}" } },
      ],
      outbound: { default: "texts", link: "pages" },
      concurrency: 4,
      error_handling: {
        retries: 3,
        backoff: { initial_seconds: 0.02, max_seconds: 0.1 },
        circuit_breaker: { failure_rate: 0.9 },
      },
    },
    {
      name: "chunk",
      inbound: "texts",
      adapters: [{ type: "chunk", config: { characters: 40 } }],
      outbound: "chunks",
    },
    {
      name: "gather",
      inbound: "chunks",
      adapters: [
        { type: "batch", config: { count: 8, seconds: 0.1 } },
        { type: "transform", config: { value: { chunks: "{{ message }}" } } },
      ],
      outbound: "groups",
    },
    {
      name: "store",
      inbound: "groups",
      adapters: [
        {
          type: "http_fetch",
          config: {
            method: "POST",
            url: "{{ input.model }}",
            json: { input: "{{ message.chunks | map(attribute='text') | list }}" },
            as: "answer",
          },
        },
        {
          type: "with_vectors",
          config: {
            chunks: "{{ message.chunks }}",
            vectors: "{{ message.answer.body.data | map(attribute='embedding') | list }}",
          },
        },
        { type: "jsonl_sink", config: { path: "vectors.jsonl" } },
      ],
      error_handling: { backoff: { initial_seconds: 0.02 } },
    },
  ],
}
