// motifs → pictures at a provider, side by side → small ones, in threads. The same could be a YAML file.
export const gallery = {
  name: "gallery",
  nodes: [
    {
      id: "paint",
      handler: "external",
      provider: "painter",
      for_each: "{{ input.motifs }}",
      config: { motif: "{{ item }}" },
    },
    // What `paint` returned is a reference, and so is what this returns: jobs carry no pictures.
    {
      id: "shrink",
      handler: "thumbnail",
      for_each: "{{ paint }}",
      config: { motif: "{{ item.motif }}", picture: "{{ item.picture }}", width: 32 },
    },
  ],
  output: "{{ shrink }}",
}
