/** Limits of a definition. Exceeding one is an E101 that names the limit. */
export interface DefinitionLimits {
  /** Bytes of a document, as UTF-8. */
  readonly documentBytes: number
  /** Bytes of a YAML document: its tree with positions takes some fifty times its size, JSON's about three. */
  readonly yamlBytes: number
  readonly nodes: number
  /** Dependencies of all nodes together, declared or referred to. */
  readonly edges: number
  readonly routes: number
  /** Adapters of one route. */
  readonly adapters: number
  /** Initial messages of a pipeline. */
  readonly initMessages: number
  /** Characters of a node id, or of the name of a route, queue or kind. */
  readonly idLength: number
  /** Levels of lists and mappings inside each other. */
  readonly depth: number
  /** Values that YAML aliases may add to a document: protects against a "billion laughs" attack. */
  readonly aliasValues: number
}

/**
 * Bytes of YAML that may be parsed without yielding where the event loop must not be blocked: some 10 ms, at worst 40. The library
 * takes 1.5 to 5 ms for a kilobyte, and cannot be interrupted.
 */
export const yamlInOnePiece = 8 * 1024

export const defaultLimits: DefinitionLimits = Object.freeze({
  documentBytes: 64 * 1024 * 1024,
  yamlBytes: 8 * 1024 * 1024,
  nodes: 100_000,
  edges: 1_000_000,
  routes: 1000,
  adapters: 100,
  initMessages: 10_000,
  idLength: 128,
  depth: 100,
  aliasValues: 100_000,
})
