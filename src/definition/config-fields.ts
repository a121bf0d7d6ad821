/** Fields of the configs of built-in handlers and adapters. */
import { z } from "zod"

/** A count or a size: from 1 to `most`. */
export const integerField = (most: number, usual: number, description: string) =>
  z.int().min(1).max(most).default(usual).describe(description)

/** A duration in seconds, greater than 0. */
export const secondsField = (most: number, usual: number, description: string) =>
  z.number().positive().max(most).default(usual).describe(description)
