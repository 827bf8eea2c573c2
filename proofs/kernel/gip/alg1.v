(* gip.alg1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Algorithm 1, lines 3 to 5.
   Get t as the 100k-th percentile of the elements |g_j|; I_j = 1 if |g_j| > t, else 0. Meant is top-k: K = k d entries are kept. *)
From kernel Require Import definitions lemmas.

Definition kept (t : R) (g : vec) : nat := length (filter (fun a => if Rlt_dec t (Rabs a) then true else false) g).
Definition at_most (t : R) (g : vec) : nat := length (filter (fun a => if Rle_dec (Rabs a) t then true else false) g).
(* t is a 100 (n/d)-th percentile: n of the d elements are at most t *)
Definition percentile (n : nat) (g : vec) (t : R) : Prop := at_most t g = n.
Definition printed : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile K g t -> kept t g = K.
(* the 100(1 - k)-th *)
Definition correction : Prop := forall d K g t, (0 < K < d)%nat -> length g = d -> percentile (d - K) g t -> kept t g = K.

(* |g| = (1, 2, 3), k = 1/3: the percentile is 1, and two entries are larger *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 3%nat 1%nat [1; 2; 3] 1 ltac:(lia) eq_refl).
  assert (r : forall a, 0 <= a -> Rabs a = a) by (intros; apply Rabs_pos_eq; assumption).
  unfold percentile, at_most, kept in claim. cbn [filter] in claim. rewrite !r in claim by lra.
  destruct (Rle_dec 1 1), (Rle_dec 2 1), (Rle_dec 3 1), (Rlt_dec 1 1), (Rlt_dec 1 2), (Rlt_dec 1 3); try lra.
  simpl in claim. specialize (claim eq_refl). discriminate claim.
Qed.
Lemma all_entries t g : (at_most t g + kept t g = length g)%nat.
Proof.
  unfold at_most, kept. induction g as [|a g IH]; [reflexivity|]. cbn [filter].
  destruct (Rle_dec (Rabs a) t), (Rlt_dec t (Rabs a)); simpl; try lia; lra.
Qed.
Theorem correction_holds : correction.
Proof. intros d K g t l e p. pose proof (all_entries t g). unfold percentile in p. lia. Qed.
