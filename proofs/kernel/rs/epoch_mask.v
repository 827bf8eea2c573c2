(* rs.epoch_mask: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 4.2.
   "Another strength of per-epoch randomization is that for one epoch there are certainly (1 - r)d coordinates updated." Section 4 names the exception:
   "In case of non-zero momentum, coordinates that have been selected can still be updated as long as their velocity has not decayed to zero."
   Refuted is the sentence read with momentum and without that exception; without momentum it is right (`correction`, for "at most"). *)
From kernel Require Import definitions lemmas.

(* one epoch of SGD with momentum mu and learning rate g under the mask m: the gradients gs are masked, velocity v and weights w go on *)
Fixpoint epoch (mu g : R) (m : list bool) (gs : list vec) (v w : vec) : vec * vec :=
  match gs with
  | [] => (v, w)
  | u :: gs' => let v' := add (scale mu v) (mask m u) in epoch mu g m gs' v' (sub w (scale g v'))
  end.
(* two epochs with masks m and m' from v = 0: in the second no more entries move than its mask keeps.
   ("certainly (1 - r)d" is more than that: exactly as many.) *)
Definition reading : Prop := forall d k mu g m m' gs gs' w, 0 <= mu < 1 -> 0 < g -> (0 < k < d)%nat ->
  In m (masks d k) -> In m' (masks d k) -> length w = d ->
  Forall (fun u => length u = d) gs -> Forall (fun u => length u = d) gs' ->
  let '(v1, w1) := epoch mu g m gs (zero d) w in
  let '(v2, w2) := epoch mu g m' gs' v1 w1 in
  forall js, NoDup js -> Forall (fun j => (j < d)%nat /\ entry w2 j <> entry w1 j) js -> (length js <= k)%nat.
(* without momentum an entry that the mask drops does not move *)
Definition correction : Prop := forall d g m gs v w, length m = d -> length w = d -> length v = d ->
  Forall (fun u => length u = d) gs ->
  forall j, nth j m true = false -> entry (snd (epoch 0 g m gs v w)) j = entry w j.

(* two entries, one kept, mu = 1/2, gamma = 1; one step with each mask: in the second epoch 2 entries move, not 1 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim.
  specialize (claim 2%nat 1%nat (1 / 2) 1 [true; false] [false; true] [[1; 1]] [[1; 1]] [0; 0]
    ltac:(lra) ltac:(lra) ltac:(lia) ltac:(simpl; tauto) ltac:(simpl; tauto) eq_refl
    ltac:(repeat constructor) ltac:(repeat constructor)).
  cbv beta iota delta [epoch mask add scale zip map zero repeat sub] in claim.
  specialize (claim [0%nat; 1%nat]). enough (h : (length [0%nat; 1%nat] <= 1)%nat) by (simpl in h; lia).
  apply claim; [repeat constructor; simpl; intuition discriminate|].
  repeat constructor; unfold entry; simpl; lra.
Qed.
Lemma entry_mask j m u : nth j m true = false -> entry (mask m u) j = 0.
Proof.
  unfold entry. revert j u; induction m as [|b m IH]; intros [|j] u; simpl; intro e; try discriminate; destruct u; simpl; try reflexivity.
  - rewrite e. reflexivity.
  - apply IH, e.
Qed.
Lemma entry_add u v j : length u = length v -> entry (add u v) j = entry u j + entry v j.
Proof. unfold entry. revert v j; induction u; destruct v; simpl; intros j e; try discriminate; [destruct j; simpl; lra|].
  destruct j; [reflexivity|]. apply IHu. lia. Qed.
Lemma entry_sub u v j : length u = length v -> entry (sub u v) j = entry u j - entry v j.
Proof. unfold entry. revert v j; induction u; destruct v; simpl; intros j e; try discriminate; [destruct j; simpl; lra|].
  destruct j; [reflexivity|]. apply IHu. lia. Qed.
Lemma entry_scale c u j : entry (scale c u) j = c * entry u j.
Proof. unfold entry. revert j; induction u; intros [|j]; simpl; try lra. apply IHu. Qed.
Theorem correction_holds : correction.
Proof.
  intros d g m gs v w em ew ev F j drop. revert v w ev ew. induction F as [|u gs eu F IH]; intros v w ev ew; [reflexivity|].
  cbn [epoch]. assert (el : length (add (scale 0 v) (mask m u)) = d).
  { rewrite length_add; rewrite length_scale; [exact ev|]. rewrite length_mask; congruence. }
  rewrite IH by (try exact el; rewrite length_sub; rewrite ?length_scale; congruence).
  rewrite entry_sub, entry_scale, entry_add, entry_scale, entry_mask; [lra | exact drop | |].
  - rewrite length_scale, length_mask; congruence.
  - rewrite length_scale; congruence.
Qed.
