/** A list that is taken over, and a node behind it. */
export const forkedFlow = {
  name: "forked",
  nodes: [
    { id: "list", handler: "work", config: { value: ["a", "b", "c"] } },
    { id: "each", handler: "work", for_each: "{{ list }}", config: { value: "{{ item }}!" } },
    { id: "last", handler: "last", config: { of: "{{ each | join('-') }}" } },
  ],
  output: "{{ last }}",
}
