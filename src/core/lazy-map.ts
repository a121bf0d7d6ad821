/**
 * Maps and sets that take no memory until something is added: a job has a dozen of them, most stay empty, and there may
 * be a hundred thousand jobs in memory. An empty `Map` takes 200 bytes, one of these 16.
 */
export class LazyMap<K, V> implements Map<K, V> {
  #map: Map<K, V> | undefined

  get size(): number {
    return this.#map === undefined ? 0 : this.#map.size
  }

  get(key: K): V | undefined {
    return this.#map === undefined ? undefined : this.#map.get(key)
  }

  has(key: K): boolean {
    return this.#map?.has(key) ?? false
  }

  set(key: K, value: V): this {
    this.#map ??= new Map()
    this.#map.set(key, value)
    return this
  }

  delete(key: K): boolean {
    return this.#map?.delete(key) ?? false
  }

  clear(): void {
    this.#map = undefined
  }

  forEach(callback: (value: V, key: K, map: Map<K, V>) => void): void {
    this.#map?.forEach(callback)
  }

  keys(): MapIterator<K> {
    return (this.#map ?? nothing).keys() as unknown as MapIterator<K>
  }

  values(): MapIterator<V> {
    return (this.#map ?? nothing).values() as unknown as MapIterator<V>
  }

  entries(): MapIterator<[K, V]> {
    return (this.#map ?? nothing).entries() as unknown as MapIterator<[K, V]>
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries()
  }

  get [Symbol.toStringTag](): string {
    return "Map"
  }
}

const nothing: ReadonlyMap<number, number> = new Map()
