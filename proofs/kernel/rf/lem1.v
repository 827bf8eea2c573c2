(* rf.lem1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 1 (eq. 28); RS, Lemma A.1.
   "u, v in R^d are too arbitrary vectors, m is a {0,1}^d random mask independent from u, v, and subject to sum m = (1 - r)d", whose zeros are "randomly draw[n]"
   (section 2.1; RS, section 3: "uniformly"): E<m^k (.) u, v> = (1 - r) E<u, v>.
   Doubt: RS's lemma states no independence. *)
From kernel Require Import definitions lemmas.

(* a finite law of mask and vectors, K = (1 - r)d of d entries kept; m^j (.) u, the j-th power entry by entry, masks j times *)
Definition outcome : Type := list bool * (vec * vec).
Definition in_dimension (d : nat) (p : law outcome) : Prop :=
  lawful p /\ Forall (fun a => length (fst (snd (snd a))) = d /\ length (snd (snd (snd a))) = d) p.
(* the mask is uniform, and independent of the pair *)
Definition independent (d K : nat) (p : law outcome) : Prop :=
  forall f : list bool -> vec * vec -> R, E p (fun o => f (fst o) (snd o)) = E p (fun o => avg (masks d K) (fun m => f m (snd o))).
Definition power_mask (j : nat) (m : list bool) (u : vec) : vec := Nat.iter j (mask m) u.
Definition printed : Prop := forall d K j p, (0 < K <= d)%nat -> (1 <= j)%nat -> in_dimension d p -> independent d K p ->
  E p (fun o => dot (power_mask j (fst o) (fst (snd o))) (snd (snd o))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).
(* another reading: uniform, and independent of u and of v one by one *)
Definition one_by_one (d K : nat) (p : law outcome) : Prop :=
  (forall (f : list bool -> R) (g : vec -> R), E p (fun o => f (fst o) * g (fst (snd o))) = avg (masks d K) f * E p (fun o => g (fst (snd o)))) /\
  (forall (f : list bool -> R) (g : vec -> R), E p (fun o => f (fst o) * g (snd (snd o))) = avg (masks d K) f * E p (fun o => g (snd (snd o)))).
Definition reading : Prop := forall d K j p, (0 < K <= d)%nat -> (1 <= j)%nat -> in_dimension d p -> one_by_one d K p ->
  E p (fun o => dot (power_mask j (fst o) (fst (snd o))) (snd (snd o))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).

Lemma power_mask_is j m u : (1 <= j)%nat -> power_mask j m u = mask m u.
Proof.
  intro l. destruct j as [|j]; [lia|]. clear l. unfold power_mask. induction j as [|j IH]; [reflexivity|].
  change (mask m (Nat.iter (S j) (mask m) u) = mask m u). rewrite IH. apply mask_twice.
Qed.
Lemma E_ext_in {A} (p : law A) f g : Forall (fun a => f (snd a) = g (snd a)) p -> E p f = E p g.
Proof. intro h. apply total_map_ext. eapply Forall_impl; [|exact h]. simpl; intros ? ->; reflexivity. Qed.
Theorem printed_holds : printed.
Proof.
  intros d K j p [K0 Kd] j1 [lp F] ind.
  rewrite (E_ext p _ (fun o => dot (mask (fst o) (fst (snd o))) (snd (snd o)))) by (intro o; rewrite power_mask_is by exact j1; reflexivity).
  rewrite (ind (fun m uv => dot (mask m (fst uv)) (snd uv))), <- E_scale. apply E_ext_in.
  eapply Forall_impl; [|exact F]. intros [q [m [u v]]] [eu ev]. simpl in *. apply masked_dot; lia.
Qed.
(* four outcomes of chance 1/4: the kept entry is the first where u = v = +-(1, 0), the second where u = +-(1, 0) = -v: E<m u, v> = 1/2, and E<u, v> = 0 *)
Definition tied : law outcome :=
  [(1 / 4, ([true; false], ([1; 0], [1; 0]))); (1 / 4, ([true; false], ([-1; 0], [-1; 0])));
   (1 / 4, ([false; true], ([1; 0], [-1; 0]))); (1 / 4, ([false; true], ([-1; 0], [1; 0])))].
Lemma satisfiable : in_dimension 2 tied /\ one_by_one 2 1 tied.
Proof.
  split; [split; [unfold tied; lawful_by | repeat constructor]|]. split; intros f g; unfold E, tied, avg; simpl; field.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. destruct satisfiable as [a b]. specialize (claim 2%nat 1%nat 1%nat tied ltac:(lia) ltac:(lia) a b).
  unfold E, tied, share, dot, power_mask in claim. simpl in claim. lra.
Qed.
