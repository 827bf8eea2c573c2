(* rs.epoch_mask: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 4.2.
   "Another strength of per-epoch randomization is that for one epoch there are certainly (1 - r)d coordinates updated", of Algorithm 1, which has momentum. *)
From kernel Require Import definitions lemmas.

(* one epoch of SGD with momentum mu and learning rate g under the mask m: the gradients gs are masked, velocity v and weights w go on *)
Fixpoint epoch (mu g : R) (m : list bool) (gs : list vec) (v w : vec) : vec * vec :=
  match gs with
  | [] => (v, w)
  | u :: gs' => let v' := add (scale mu v) (mask m u) in epoch mu g m gs' v' (sub w (scale g v'))
  end.
(* two epochs with masks m and m' from v = 0: in the second no more entries move than its mask keeps.
   ("certainly (1 - r)d" is more than that: exactly as many.) *)
Definition printed : Prop := forall d k mu g m m' gs gs' w, 0 <= mu < 1 -> 0 < g -> (0 < k < d)%nat ->
  In m (masks d k) -> In m' (masks d k) -> length w = d ->
  Forall (fun u => length u = d) gs -> Forall (fun u => length u = d) gs' ->
  let '(v1, w1) := epoch mu g m gs (zero d) w in
  let '(v2, w2) := epoch mu g m' gs' v1 w1 in
  forall js, NoDup js -> Forall (fun j => (j < d)%nat /\ entry w2 j <> entry w1 j) js -> (length js <= k)%nat.
(* without momentum an entry that the mask drops does not move *)
Definition correction : Prop := forall d g m gs v w, length m = d -> length w = d -> length v = d ->
  Forall (fun u => length u = d) gs ->
  forall j, nth j m true = false -> entry (snd (epoch 0 g m gs v w)) j = entry w j.
