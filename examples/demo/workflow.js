// The demo's workflow as a plain definition: the same could be a YAML file.
export const orderWorkflow = {
  name: "order",
  nodes: [
    { id: "order", handler: "input" },
    {
      id: "price",
      handler: "call_external_service",
      config: { url: "{{ input.prices_url }}?item={{ order.item }}" },
      retry: { max_attempts: 5, initial_seconds: 0.3, max_seconds: 1 },
    },
    { id: "stock", handler: "check_stock", dependencies: ["order"] },
    { id: "gift_wrap", handler: "transform", config: { value: "a ribbon" }, when: "{{ order.gift }}" },
    { id: "pack", handler: "pack_parcel", config: { item: "{{ order.item }}" } },
    {
      id: "letter",
      handler: "transform",
      dependencies: ["gift_wrap"],
      config: {
        value:
          "Dear {{ order.customer | title }}, {{ pack.parcel }} is on its way for {{ price.body.amount }} {{ price.body.currency }}. {{ stock.available }} are left.",
      },
    },
  ],
  output: { letter: "{{ letter }}", price: "{{ price.body.amount }}" },
}
