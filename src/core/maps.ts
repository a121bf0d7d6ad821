/** The value of a key; a missing one is made and kept. */
export function valueIn<Key extends Kept, Value, Kept = Key>(
  map: { get(key: Kept): Value | undefined; set(key: Kept, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/** The items by key, in their order. */
export function groupBy<Item, Key>(items: Iterable<Item>, toKey: (item: Item) => Key): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>()
  for (const item of items) valueIn(groups, toKey(item), () => []).push(item)
  return groups
}
