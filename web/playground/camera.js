// A picture from the camera: looked at, taken, or left.
import { element } from "../src/page.js";
import { Picture } from "./pictures.js";

export const hasCamera = () => Boolean(navigator.mediaDevices?.getUserMedia); // secure contexts alone

// The picture that was taken, or nothing. Throws what the browser says of a camera that it cannot have.
export async function takePicture() {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  const video = Object.assign(element("video", { playsinline: "", "aria-label": "What the camera sees" }), { srcObject: stream, muted: true });
  const take = element("button", { value: "take", class: "main", disabled: "" }, "Take the picture"); // until there is one
  const dialog = element("dialog", { class: "camera", "aria-label": "Camera" }, video,
    element("form", { method: "dialog" }, element("button", { value: "" }, "Cancel"), take));
  video.onloadeddata = () => {
    take.disabled = false;
    take.focus();
  };
  document.body.append(dialog);
  const closed = new Promise((resolve) => { dialog.onclose = resolve; });
  dialog.showModal();
  video.play().catch(() => {}); // a dialog that is closed at once ends it
  await closed;
  let picture = null;
  if (dialog.returnValue === "take" && video.videoWidth) {
    const canvas = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    picture = await Picture.read(await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92)), "camera");
  }
  for (const track of stream.getTracks()) track.stop();
  dialog.remove();
  return picture;
}
