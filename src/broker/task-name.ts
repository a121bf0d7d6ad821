import type { TaskName } from "./port.ts"

/** `job/node/attempt`, or `job/node.item/attempt`. */
export function nameOf({ jobId, node, item, attempt }: TaskName): string {
  return item === undefined ? `${jobId}/${node}/${attempt}` : `${jobId}/${node}.${item}/${attempt}`
}

export function nameFrom(text: string): TaskName {
  const [jobId = "", place = "", attempt] = text.split("/")
  const [node, item] = place.split(".")
  const name = { jobId, node: Number(node), attempt: Number(attempt) }
  return item === undefined ? name : { ...name, item: Number(item) }
}
