/**
 * More take-overs of a partition than can happen between a backup and its restore. Epochs go up to 2^19
 * (`engine/ids.ts`).
 */
export const RESTORED_EPOCHS = 1024
